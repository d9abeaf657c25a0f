"""Machines that a declared product makes: their addresses, and that they are gone when they have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product import declared_wait
from harness.cell.product.declared_wait import Watched, addresses, deleted
from harness.errors import ProductError
from harness.kube.client import Json
from harness.kube.resources import Resource
from harness.spec import load_spec
from harness.spec.models.product_declared import Confirmation, DeclaredOptions, MadeMachines
from harness.until import Deadline, NotYet
from tests.unit.pages import ROOT

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


CONFIRM = Confirmation(annotation="example.org/restore", path="{.status.confirmation}")
GUEST = Resource("example.org", "v1", "guests", "Guest")
LOOKS = 6


class Objects:
    """An API with one object, which a controller has in another state after each look."""

    def __init__(self, *states: Json) -> None:
        self.states = list(states)
        self.annotations: dict[str, str] = {}
        self.patches: list[str] = []

    def get(self, *_place: str) -> Json:
        """Return the object; the last state stays."""
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"metadata": {"generation": 1, "annotations": dict(self.annotations)}, "status": status}

    def merge(self, _kind: Resource, _name: str, patch: Json, _namespace: str) -> Json:
        """Take the annotations of a patch."""
        said: dict[str, str] = patch["metadata"]["annotations"]
        self.annotations |= said
        self.patches += said.values()
        return {}


class Looks(Watched):
    """Looks a few times, without a pause."""

    def resource_at(self, where: Any = None) -> Resource:
        """Return the kind of the object, which is not asked for."""
        return GUEST

    def _until(self, look: Any, what: str, watch: Any, deadline: Deadline) -> Any:
        found: Any = NotYet("nobody has looked")
        for _ in range(LOOKS):
            if not isinstance(found := look(), NotYet):
                return found
        raise TimeoutError(found.reason)


def condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "observedGeneration": 1, "message": "it says so"}


def state(*kinds: str, confirmation: str | None = None) -> Json:
    made: Json = {"observedGeneration": 1, "conditions": [condition(kind) for kind in kinds]}
    return made if confirmation is None else {**made, "confirmation": confirmation}


ASKS, DONE, BROKEN = state("Degraded", confirmation="1a2b"), state("Ready"), state("Degraded")


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> DeclaredOptions:
    """Return what is said of the operator's objects, whose pods are all well."""
    well = SimpleNamespace(refuse_broken=lambda: None)
    monkeypatch.setattr(declared_wait, "PodWatch", lambda *_: well)
    found = load_spec(ROOT / "matrix").products["operator"].declared
    assert found is not None
    return found.model_copy(update={"progress": None, "failed": found.failed.model_copy(update={"record": None})})


def watched(objects: Objects, options: DeclaredOptions) -> Looks:
    outer = cast("Any", SimpleNamespace(cluster=objects))
    return Looks(outer, "cell", options, lambda _: None)


def test_what_is_asked_for_is_confirmed_once_and_is_no_failure(options: DeclaredOptions) -> None:
    objects = Objects(ASKS, ASKS, DONE)
    watched(objects, options).wait_done(Deadline.after(60.0), CONFIRM)
    assert objects.patches == ["1a2b"]
    assert objects.annotations == {"example.org/restore": "1a2b"}


def test_something_else_that_is_asked_for_is_confirmed_as_well(options: DeclaredOptions) -> None:
    objects = Objects(ASKS, state("Degraded", confirmation="3c4d"), DONE)
    watched(objects, options).wait_done(Deadline.after(60.0), CONFIRM)
    assert objects.patches == ["1a2b", "3c4d"]


def test_nothing_is_confirmed_that_is_not_asked_for(options: DeclaredOptions) -> None:
    objects = Objects(BROKEN)
    with pytest.raises(ProductError, match="Degraded"):
        watched(objects, options).wait_done(Deadline.after(60.0), CONFIRM)
    assert objects.patches == []


def test_a_phase_that_confirms_nothing_fails_where_a_person_is_asked(options: DeclaredOptions) -> None:
    objects = Objects(ASKS)
    with pytest.raises(ProductError, match="Degraded"):
        watched(objects, options).wait_done(Deadline.after(60.0))
    assert objects.patches == []
