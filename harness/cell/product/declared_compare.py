"""What the objects of a declared product say of the cluster, held to what the phase was to make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.cell.product.declared_wait import Watched
from harness.cell.product.protocol import PhaseRun
from harness.errors import ProductError
from harness.model import Phase
from harness.spec.models.product_declared import InObject

LONGEST = 200  # characters of a value in a message
ABSENT = "nothing"


def refuse_different(watched: Watched, wanted: PhaseRun) -> None:
    """Compare everything that the product's file names.

    Raises:
        ProductError: with all that differs.
    """
    found = [*_expected(watched, wanted), *_variables(watched, wanted), *_machines(watched, wanted.phase)]
    if found:
        hint = "the objects' status does not tell what the cell asked for"
        raise ProductError(found[0], hint=hint, detail="\n".join(found))


def _expected(watched: Watched, wanted: PhaseRun) -> Iterator[str]:
    for variable, where in watched.options.expected.items():
        value, found = wanted.variables.get(variable), watched.value(where)
        if value is not None and str(found) != str(value):
            yield f"{_place(watched, where)} is {found!r}, and {variable} is {value!r}"


def _variables(watched: Watched, wanted: PhaseRun) -> Iterator[str]:
    """Yield each variable that the cluster was not made with; they are compared as the JSON that an API keeps."""
    where = watched.options.variables
    if where is None:
        return
    found = watched.value(where)
    known = found if isinstance(found, Mapping) else {}
    for name, value in sorted(wanted.variables.items()):
        if name not in where.but and (name not in known or _json(known[name]) != _json(value)):
            has = _short(known[name]) if name in known else ABSENT
            yield f"{_place(watched, where)} has {has} for {name}, which is {_short(value)}"


def _machines(watched: Watched, phase: Phase) -> Iterator[str]:
    where = watched.options.machines
    if where is None:
        return
    left = sorted(name for name in phase.machines if name not in (*phase.removed, *phase.lost))
    found = watched.value(where)
    if not isinstance(found, list) or sorted(map(str, found)) != left:
        yield f"{_place(watched, where)} is {_short(found)}, and the machines of the cluster are {', '.join(left)}"


def _place(watched: Watched, where: InObject) -> str:
    return f"{where.path} of {where.kind or watched.options.object.kind}"


def _json(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Return plain data with whole numbers as an API server keeps them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _short(value: Any) -> str:
    text = _json(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
