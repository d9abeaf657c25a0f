"""A phase confirms what its object asks a person for, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product import declared_wait
from harness.cell.product.declared_wait import Watched
from harness.errors import ProductError
from harness.kube.client import Json
from harness.kube.resources import Resource
from harness.spec import load_spec
from harness.spec.models.product_declared import Confirmation, DeclaredOptions
from harness.until import Deadline, NotYet
from tests.unit.pages import ROOT

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
