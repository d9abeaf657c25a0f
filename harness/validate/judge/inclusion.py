"""Whether an object has what is asked for, whatever else it has: what a patch or a part of a configuration does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Lack = tuple[str, Any, Any]  # path, what was asked for, what is there
# By which key lists are merged (kubernetes.io, "Strategic merge patch"), those of pods and of the scheduler's profiles
MERGE_KEYS = ("name", "schedulerName", "mountPath", "containerPort")
DIRECTIVE = "$"  # how the keys of a strategic patch begin that say what to do


def lacking(asked: Any, there: Any, path: str = "") -> Iterator[Lack]:
    """Yield what is not there of what is asked for.

    Mappings may have more keys, in any case of letters; lists of mappings with a name may have more of them; what is
    asked to be None must be absent or empty.
    """
    if isinstance(asked, Mapping):
        known = {str(key).lower(): value for key, value in there.items()} if isinstance(there, Mapping) else {}
        for key, value in asked.items():
            if not str(key).startswith(DIRECTIVE):
                yield from lacking(value, known.get(str(key).lower()), f"{path}.{key}" if path else str(key))
    elif key := _merge_key(asked):
        by_name = _by(key, there)
        for one in asked:
            yield from lacking(one, by_name.get(one[key]), f"{path}[{one[key]}]")
    elif asked != there and not (asked in (None, False) and not there):  # JSON leaves out what is false
        yield path, asked, there


def _merge_key(asked: Any) -> str:
    """Return the key by which a list is merged, "" for what is no such list."""
    if not isinstance(asked, Sequence) or isinstance(asked, str) or not asked:
        return ""
    return next((key for key in MERGE_KEYS if all(isinstance(one, Mapping) and key in one for one in asked)), "")


def _by(key: str, there: Any) -> dict[Any, Any]:
    rows = there if isinstance(there, Sequence) and not isinstance(there, str) else ()
    found = {}
    for row in rows:
        if isinstance(row, Mapping):
            lowered = {str(name).lower(): value for name, value in row.items()}
            found[lowered.get(key.lower())] = row
    return found


def unapplied(operations: Sequence[Mapping[str, Any]], there: Any) -> Iterator[Lack]:
    """Yield what is not as operations of JSON patches (RFC 6902) leave an object; others than these leave no trace."""
    for one in operations:
        path, name = str(one.get("path", "")), one.get("op")
        seen = list(_at(there, path))
        if name in ("add", "replace"):
            wanted = one.get("value")
            # an item that is added to a list has moved on where another was put before it
            if wanted not in seen:
                yield path, wanted, seen[0] if seen else None
        elif name == "remove" and not path.rpartition("/")[2].isdigit() and seen and seen[0] is not None:
            yield path, None, seen[0]


def _at(there: Any, pointer: str) -> Iterator[Any]:
    """Yield what is at a JSON pointer (RFC 6901); for an item of a list, that one first and then the others."""
    *steps, last = [word.replace("~1", "/").replace("~0", "~") for word in pointer.split("/")[1:]] or [""]
    for step in steps:
        if isinstance(there, Mapping):
            there = there.get(step)
        elif isinstance(there, Sequence) and not isinstance(there, str) and step.isdigit() and int(step) < len(there):
            there = there[int(step)]
        else:
            return
    if isinstance(there, Mapping):
        yield there.get(last)
    elif isinstance(there, Sequence) and not isinstance(there, str):
        first = [there[int(last)]] if last.isdigit() and int(last) < len(there) else []
        yield from [*first, *there]
