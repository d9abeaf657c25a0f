"""Machines that a declared product makes: their addresses, and that they are gone when they have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product.declared_wait import Watched, addresses, deleted
from harness.kube.client import Json
from harness.spec.models.product_declared import MadeMachines
from harness.until import Deadline, NotYet

MAKES = MadeMachines(apply="machines.yml.j2", kind="Machine", address="{.status.address}")
SOON = Deadline.after(60.0)


@dataclass
class Seen:
    """What is asked of an object that is waited for; one look at it is taken."""

    objects: Mapping[str, Json]
    namespace: str = "cell"
    told: list[str] = field(default_factory=list)
    kinds: list[str | None] = field(default_factory=list)

    @property
    def outer(self) -> Any:
        """Return an infra cluster that has the objects."""
        return SimpleNamespace(cluster=SimpleNamespace(get=lambda _kind, name, _namespace: self.objects.get(name)))

    def resource_at(self, where: Any) -> str:
        """Take note of the kind."""
        self.kinds.append(where.kind)
        return "machines"

    def on_task(self, said: str) -> None:
        """Take note of what is waited for."""
        self.told.append(said)

    def wait(self, look: Callable[[], Any], what: str, _deadline: Deadline) -> Any:
        """Look once."""
        found = look()
        if isinstance(found, NotYet):
            raise TimeoutError(f"{what}: {found.reason}")
        return found


def machine(address: str = "", **condition: str) -> Json:
    return {"status": {"address": address, "conditions": [condition] if condition else []}}


def test_all_addresses_are_waited_for() -> None:
    seen = Seen({"cp-0": machine("192.0.2.1"), "w-0": machine("192.0.2.2")})
    assert addresses(cast("Watched", seen), MAKES, ["cp-0", "w-0"], SOON) == {"cp-0": "192.0.2.1", "w-0": "192.0.2.2"}
    assert (seen.kinds, seen.told) == (["Machine"], [])


def test_what_a_machine_lacks_is_said_in_its_own_words() -> None:
    starting = machine(type="InfrastructureReady", status="False", reason="ImportingImage", message="12 %")
    seen = Seen({"cp-0": machine("192.0.2.1"), "w-0": starting})
    with pytest.raises(
        TimeoutError, match=r"w-0: InfrastructureReady: ImportingImage 12 %; w-1: nothing is said of it"
    ):
        addresses(cast("Watched", seen), MAKES, ["cp-0", "w-0", "w-1"], SOON)
    assert seen.told == ["machines w-0, w-1"]


def test_machines_that_left_are_to_be_gone() -> None:
    seen = Seen({"w-1": machine("192.0.2.3")})
    deleted(cast("Watched", seen), MAKES, ["w-0"], SOON)
    with pytest.raises(TimeoutError, match="Machines w-0, w-1 to be gone: w-1 are there"):
        deleted(cast("Watched", seen), MAKES, ["w-0", "w-1"], SOON)


def test_nothing_is_asked_where_no_machine_leaves() -> None:
    seen = Seen({})
    deleted(cast("Watched", seen), MAKES, [], SOON)
    assert seen.told == []
