"""What plays of a playbook run on, read leniently: a file that is no playbook has no plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput
from harness.reading import read_text


def hosts_of(playbook: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the groups that the plays of a playbook name, and of those that it imports; templates name nothing."""
    if playbook in seen:
        return
    seen.add(playbook)
    for play in plays_of(playbook):
        hosts = play.get("hosts", ())
        for pattern in [hosts] if isinstance(hosts, str) else hosts if isinstance(hosts, list) else ():
            if isinstance(pattern, str) and "{{" not in pattern:
                words = (word.strip().lstrip("!&").partition("[")[0] for word in pattern.replace(",", ":").split(":"))
                yield from (word for word in words if word and word.replace("_", "").replace("-", "").isalnum())
        imported = play.get("import_playbook", play.get("ansible.builtin.import_playbook"))
        if isinstance(imported, str):
            yield from hosts_of(playbook.parent / imported, seen)


class _Lenient(yaml.SafeLoader):
    """Reads tags such as !vault as nothing: only the names of plays' hosts matter here."""


_Lenient.add_multi_constructor("!", lambda *_: None)


def plays_of(file: Path) -> list[dict[str, Any]]:
    """Return the plays of a playbook; nothing where the file is none."""
    try:
        content = yaml.load(read_text(file), _Lenient)  # noqa: S506 - a SafeLoader
    except (BadInput, ValueError, yaml.YAMLError, RecursionError):
        return []
    plays = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return [
        one for one in plays if any(key.rpartition(".")[2] in ("hosts", "import_playbook") for key in map(str, one))
    ]
