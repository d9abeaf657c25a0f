"""Machines that a declared product makes itself: they are objects of it, which have an address once they run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harness.cell.product.declared_wait import Watched
from harness.kube.objects import dig
from harness.spec.jsonpath import value_at
from harness.spec.models.product_declared import InObject, MadeMachines
from harness.until import Deadline, NotYet


def addresses(watched: Watched, makes: MadeMachines, names: Sequence[str], deadline: Deadline) -> Mapping[str, str]:
    """Return the machines' addresses by name, once all of them have one.

    Raises:
        ProductError, InfraError, HarnessBug: time is up, or the controllers do not run.
    """
    resource = watched.resource_at(_where(makes))

    def look() -> Mapping[str, str] | NotYet:
        found = {name: watched.outer.cluster.get(resource, name, watched.namespace) or {} for name in names}
        known = {name: str(value_at(one, makes.address) or "") for name, one in found.items()}
        missing = [name for name in names if not known[name]]
        if not missing:
            return known
        watched.on_task(f"machines {', '.join(missing)}")
        return NotYet("; ".join(f"{name}: {_said(found[name])}" for name in missing))

    made: Mapping[str, str] = watched.wait(look, f"{makes.kind}s {', '.join(names)} to have addresses", deadline)
    return made


def deleted(watched: Watched, makes: MadeMachines, names: Collection[str], deadline: Deadline) -> None:
    """Wait until the machines that left are gone; raises as `addresses`."""
    resource = watched.resource_at(_where(makes))

    def look() -> bool | NotYet:
        there = [name for name in names if watched.outer.cluster.get(resource, name, watched.namespace) is not None]
        return NotYet(f"{', '.join(there)} are there") if there else True

    if names:
        watched.wait(look, f"{makes.kind}s {', '.join(names)} to be gone", deadline)


def _where(makes: MadeMachines) -> InObject:
    return InObject(apiVersion=makes.apiVersion, kind=makes.kind, path=makes.address)


def _said(found: Mapping[str, Any]) -> str:
    """Return what a machine's conditions say that are not True."""
    conditions = dig(found, "status", "conditions") or []
    said = [f"{c['type']}: {c.get('reason')} {c.get('message', '')}" for c in conditions if c.get("status") != "True"]
    return ", ".join(said) or "nothing is said of it"
