"""Many expired cells are reaped at a small price each: nobody asks for one namespace what one list says of all."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any, cast

import pytest

from harness.cell import teardown
from harness.cell.existing import CellSelector
from harness.cell.teardown import reap
from harness.errors import Leaked
from harness.kube.client import ApiFailure, Cluster, Json, Listing
from harness.kube.failures import Answer, failure_of
from harness.kube.resources import NAMESPACE, Resource
from harness.model import LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from harness.until import Deadline

MANY = 300
SECONDS = 60.0  # against hanging


class Api:
    """An API whose namespaces go a while after they are deleted, a few at each list; it counts requests."""

    def __init__(self, names: list[str], held: str = "", refused: str = "") -> None:
        self.there = {name: _namespace(name) for name in names}
        self.ending: list[str] = []
        self.held, self.refused = held, refused
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def list(self, resource: Resource, namespace: str | None = None, **_: Any) -> Listing:
        """Return all namespaces; of other kinds there is nothing."""
        with self.lock:
            if resource is not NAMESPACE:
                self.counts["list in a namespace"] += 1
                return Listing([], "1")
            self.counts["list of namespaces"] += 1
            for name in self.ending[:20]:
                self.ending.remove(name)
                del self.there[name]
            return Listing(list(self.there.values()), "1")

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """Return a namespace."""
        with self.lock:
            self.counts["get"] += 1
            return self.there.get(name)

    def delete(self, resource: Resource, name: str, namespace: str | None = None, *, grace: int | None = None) -> bool:
        """Delete a namespace; the one that is held stays."""
        if name == self.refused:
            raise failure_of(Answer(403, {"reason": "Forbidden"}, ()), f"DELETE {name}")
        with self.lock:
            self.counts["delete"] += 1
            if name != self.held:
                self.ending.append(name)
            return True


def _namespace(name: str) -> Json:
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_RUN: "old", LABEL_CELL: name, LABEL_EXPIRES: "1"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Terminating"}}


def test_a_sweep_of_many_looks_at_all_at_once_and_counts_down() -> None:
    api, gone, left = Api([f"cell-{n}" for n in range(MANY)]), list[str](), list[int]()
    found = reap(
        cast("Cluster", api),
        CellSelector(only_expired=True),
        seconds=SECONDS,
        on_gone=lambda cell: gone.append(cell.namespace),
        on_left=left.append,
    )
    assert len(found) == len(set(gone)) == MANY
    assert sorted(left) == list(range(MANY))
    assert api.counts["get"] == 0
    assert api.counts["delete"] == MANY
    assert api.counts["list in a namespace"] <= 4 * MANY
    assert api.counts["list of namespaces"] < MANY


def test_what_stays_and_what_is_refused_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(["held", "refused", "other"], held="held", refused="refused")
    gone = list[str]()
    monkeypatch.setattr(Deadline, "remaining", lambda _: 0.0 if gone else SECONDS)  # time is up once the other is gone
    with pytest.raises(Leaked) as leak:
        reap(cast("Cluster", api), CellSelector(), seconds=SECONDS, on_gone=lambda cell: gone.append(cell.namespace))
    assert gone == ["other"]
    assert "namespace held still exists" in leak.value.summary
    assert "namespace refused could not be removed" in leak.value.summary


def test_a_refused_list_is_no_sign_that_all_are_gone() -> None:
    api = Api(["cell"])
    first = iter([api.list(NAMESPACE)])

    def refusing(resource: Resource, namespace: str | None = None, **_: Any) -> Listing:
        if resource is not NAMESPACE:
            return Listing([], "1")
        if (found := next(first, None)) is not None:
            return found
        raise failure_of(Answer(403, {"reason": "Forbidden"}, ()), "GET namespaces")

    api.list = refusing  # type: ignore[method-assign]
    with pytest.raises((Leaked, ApiFailure)):
        reap(cast("Cluster", api), CellSelector(), seconds=SECONDS)


def test_what_is_waited_for_is_said_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teardown, "WAIT_SECONDS", 0.01)
    api, told = Api(["cell-0"]), threading.Event()
    listed, said = api.list, list[str]()

    def lasting(resource: Resource, namespace: str | None = None, **more: Any) -> Listing:
        if resource is NAMESPACE and not told.is_set():
            return Listing([_namespace("cell-0")], "1")
        return listed(resource, namespace, **more)

    def say(line: str) -> None:
        said.append(line)
        told.set()

    api.list = lasting  # type: ignore[method-assign]
    reap(cast("Cluster", api), CellSelector(), seconds=SECONDS, on_wait=say)
    assert re.match(r"waiting for namespace cell-0 to be gone \(\d+ s\)", said[0])
