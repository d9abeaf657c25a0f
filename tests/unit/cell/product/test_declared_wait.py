"""Machines that a declared product makes: their addresses, and that they are gone when they have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product import declared_wait
from harness.cell.product.declared_wait import KILLS, PASSING_LOOKS, PodWatch, Watched, addresses, deleted
from harness.cell.product.protocol import OuterCluster
from harness.errors import ProductError
from harness.kube.client import Json
from harness.kube.resources import POD, Resource
from harness.spec import load_spec
from harness.spec.models.product_declared import AlsoDone, DeclaredOptions, MadeMachines
from harness.until import Deadline, NotYet
from tests.unit.fake_cluster import FakeCluster
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


CRASHING = {"waiting": {"reason": "CrashLoopBackOff"}}
# Restarts of a container that waits for its next one, kills on request, and whether it crashes.
RESTARTS = ((2, 0, False), (3, 0, True), (4, 2, False), (5, 2, True), (9, 9, False))


@pytest.mark.parametrize(("restarts", "kills", "crashes"), RESTARTS)
def test_a_container_that_was_killed_on_request_does_not_crash(restarts: int, kills: int, crashes: bool) -> None:
    states = [{"name": "manager", "state": CRASHING, "restartCount": restarts}]
    meta = {"name": "operator", "namespace": "cell", "annotations": {KILLS: str(kills)}}
    api = FakeCluster({POD: [{"metadata": meta, "status": {"phase": "Running", "containerStatuses": states}}]})
    outer = cast("OuterCluster", SimpleNamespace(cluster=api, timeouts=SimpleNamespace(unschedulable=0.0)))
    said = PodWatch(outer, "cell").said()
    assert bool(said) == crashes, said


GUEST = Resource("example.org", "v1", "guests", "Guest")
LOOKS = PASSING_LOOKS + 1


class Objects:
    """An API with one object, which a controller has in another state after each look."""

    def __init__(self, *states: Json) -> None:
        self.states = list(states)

    def get(self, *_place: str) -> Json:
        """Return the object; the last state stays."""
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"metadata": {"generation": 1}, "status": status}


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


def state(*kinds: str) -> Json:
    return {"observedGeneration": 1, "conditions": [condition(kind) for kind in kinds]}


DONE, BROKEN = state("Ready"), state("Degraded")


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


UNTIL = AlsoDone(kind="EtcdRestore", name="back", condition="Restored", failed="Failed", observed=False)


def test_a_failure_that_lasts_is_one_though_another_object_is_waited_for(options: DeclaredOptions) -> None:
    with pytest.raises(ProductError, match="guest is Degraded"):
        watched(Objects(BROKEN), options).wait_other(UNTIL, Deadline.after(60.0))


def test_a_failure_that_what_was_applied_with_it_ends_is_none(options: DeclaredOptions) -> None:
    states = (BROKEN, state(), BROKEN, state(), state("Ready"), state("Restored"))  # the object, the other one, ...
    watched(Objects(*states), options).wait_other(UNTIL, Deadline.after(60.0))


def test_another_object_that_failed_fails_the_phase(options: DeclaredOptions) -> None:
    with pytest.raises(ProductError, match="EtcdRestore back is Failed: Failed: it says so"):
        watched(Objects(DONE, state("Failed")), options).wait_other(UNTIL, Deadline.after(60.0))


def test_a_failure_of_before_the_last_edit_does_not_count(options: DeclaredOptions) -> None:
    other = UNTIL.model_copy(update={"observed": True})
    before = {**state("Failed"), "observedGeneration": 0}
    watched(Objects(DONE, before, DONE, state("Restored")), options).wait_other(other, Deadline.after(60.0))
    with pytest.raises(ProductError, match="is Failed"):
        watched(Objects(DONE, before, DONE, state("Failed")), options).wait_other(other, Deadline.after(60.0))


def rolled_back(reason: str, generation: int = 1) -> Json:
    known = {"type": "Ready", "status": "False", "reason": reason, "observedGeneration": generation, "message": "why"}
    return {"conditions": [known]}


BACK = AlsoDone(kind="Delivery", name="shop", condition="Ready", reason="RolledBack")


def test_a_reason_is_waited_for_whatever_the_status(options: DeclaredOptions) -> None:
    states = (DONE, DONE, DONE, rolled_back("Deploying"), DONE, rolled_back("RolledBack"))
    watched(Objects(*states), options).wait_other(BACK, Deadline.after(60.0))


def test_a_failure_that_is_waited_for_is_none_and_another_one_is(options: DeclaredOptions) -> None:
    back = BACK.model_copy(update={"failed": "Stalled"})
    stalled = condition("Stalled")
    for reason in ("RolledBack", "DockerfileBroken"):
        state_then = {"conditions": [*rolled_back(reason)["conditions"], stalled]}
        looks = watched(Objects(DONE, state_then), options)
        if reason == "RolledBack":
            looks.wait_other(back, Deadline.after(60.0))
        else:
            with pytest.raises(ProductError, match="shop is Stalled"):
                looks.wait_other(back, Deadline.after(60.0))


def test_a_condition_that_is_true_for_another_reason_is_not_what_is_waited_for(options: DeclaredOptions) -> None:
    for state_then in (DONE, rolled_back("Deploying"), rolled_back("RolledBack", 0)):
        with pytest.raises(TimeoutError):
            watched(Objects(state_then), options).wait_other(BACK, Deadline.after(60.0))
