"""A runtime that was not replaced everywhere, containers that started anew, and images that went are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model import Cell
from harness.validate.findings import Unjudged, real
from harness.validate.phases import runtime_upgrade
from harness.validate.phases.observation import Observation
from harness.validate.phases.runtime_upgrade import (
    images_of,
    lost_images,
    not_replaced,
    older_shims,
    replaces,
    started_anew,
    staying,
    wrong_shims,
)
from tests.unit.validate.guests import Json
from tests.unit.validate.moments import moment

OLD, NEW = "1.7.35", "2.4.2"


def told(version: str, machine: str = "") -> Callable[[Json], None]:
    """Return a change of the API's objects: nodes, or one of them, report this version of containerd."""

    def change(raw: Json) -> None:
        for node in raw["nodes"]:
            if machine in ("", node["metadata"]["name"]):
                node["status"]["nodeInfo"]["containerRuntimeVersion"] = f"containerd://{version}"

    return change


def with_runtime(seen: Observation, version: str) -> Observation:
    """Return a moment in which each machine runs, and is to run, a version of containerd."""
    running = {n: replace(p, versions={**p.versions, "containerd": (version,)}) for n, p in seen.running.items()}
    return replace(seen, expected=replace(seen.expected, runtime_version=version), running=running)


BEFORE = with_runtime(moment(view=told(OLD)), OLD)
AFTER = with_runtime(moment(view=told(NEW)), NEW)


def cell(*phases: tuple[str, str, bool]) -> Cell:
    """Return a cell with phases: runtime, Kubernetes, whether there is a cluster after it."""
    made = [SimpleNamespace(values={"runtime": r, "kubernetes": k}, cluster=c) for r, k, c in phases]
    found: Any = SimpleNamespace(phases=made)
    checked: Cell = found
    return checked


@pytest.mark.parametrize(
    ("phases", "wanted"),
    [
        ([("a", "1", True), ("b", "1", True)], True),
        ([("a", "1", True), ("a", "2", True)], False),
        ([("a", "1", True), ("b", "2", True)], False),  # kubeadm starts what runs anew
        ([("a", "1", False), ("b", "1", True)], False),
    ],
)
def test_a_runtime_is_replaced_by_a_phase_that_changes_nothing_else(
    phases: list[tuple[str, str, bool]], *, wanted: bool
) -> None:
    assert replaces(cell(*phases), 1) is wanted
    assert not replaces(cell(*phases), 0)


def test_a_runtime_that_was_replaced_everywhere_passes() -> None:
    assert not_replaced(BEFORE, AFTER) == []


def test_a_node_that_reports_the_old_version_is_found() -> None:
    left = with_runtime(moment(view=lambda raw: (told(NEW)(raw), told(OLD, "w-0")(raw))[0]), NEW)
    (found,) = not_replaced(BEFORE, left)
    assert (found.where, found.seen) == ("w-0, as its Node reports, after it", repr(OLD))


def test_a_program_of_the_old_version_that_still_runs_is_found() -> None:
    running = {**AFTER.running, "w-0": BEFORE.running["w-0"]}
    (found,) = not_replaced(BEFORE, replace(AFTER, running=running))
    assert found.where == "w-0: containerd, running, after it"


def test_a_deployment_that_had_the_new_version_already_is_found() -> None:
    assert {f.where for f in not_replaced(replace(AFTER, expected=BEFORE.expected), AFTER)} == {
        f"{name}{place}, before the phase"
        for name in ("cp-0", "w-0")
        for place in (", as its Node reports", ": containerd, running")
    }


def test_a_phase_that_changes_no_version_proves_nothing() -> None:
    (found,) = not_replaced(AFTER, AFTER)
    assert "whose version changes" in found.expected


def test_a_version_that_nobody_says_is_not_judged() -> None:
    unsaid = replace(AFTER, expected=replace(AFTER.expected, runtime_version=""))
    (found,) = not_replaced(BEFORE, unsaid)
    assert isinstance(found, Unjudged)


def owned(raw: Json) -> None:
    """Let pods have owners, which the record leaves out."""
    told(NEW)(raw)
    for pod in raw["pods"]:
        name = pod["metadata"]["name"]
        kind = "Node" if name.endswith("-cp-0") else "ReplicaSet" if "coredns" in name else "DaemonSet"
        pod["metadata"]["ownerReferences"] = [{"kind": kind}]


OWNED = moment(view=owned).view


def test_containers_that_no_drain_moves_are_those_of_daemon_sets_and_static_pods() -> None:
    pods = staying(OWNED)
    assert "kube-system/kube-apiserver-cp-0" in pods
    assert any(pod.startswith("kube-flannel/") for pod in pods)
    assert not any("coredns" in pod for pod in pods)
    assert all(container for pod in pods.values() for container in pod.values())


def test_a_container_that_started_anew_and_a_pod_that_is_gone_are_found() -> None:
    was = staying(OWNED)
    assert started_anew(was, was) == []
    api, proxy = "kube-system/kube-apiserver-cp-0", next(pod for pod in was if "kube-proxy" in pod)
    now = {**was, api: {"kube-apiserver": "containerd://other"}}
    now.pop(proxy)
    assert [f.where for f in started_anew(was, now)] == [
        *(
            where
            for pod in was
            for where in ([f"{api} kube-apiserver"] if pod == api else [proxy] if pod == proxy else [])
        )
    ]


def test_images_that_went_are_found_where_all_are_told() -> None:
    was = {"w-0": frozenset({"a:1", "b:1"})}
    assert lost_images(was, {"w-0": frozenset({"a:1", "b:1", "c:1"})}) == []
    (gone,) = lost_images(was, {"w-0": frozenset({"a:1"})})
    assert "no b:1" in gone.seen
    many = frozenset(f"{number}:1" for number in range(runtime_upgrade.MOST_IMAGES))
    assert real(lost_images(was, {"w-0": many})) == []
    assert real(lost_images({"w-0": frozenset()}, {"w-0": many}))
    assert real(lost_images(was, {}))


def test_images_of_nodes_are_told_by_their_names() -> None:
    def named(raw: Json) -> None:
        for node in raw["nodes"]:
            node["status"]["images"] = [{"names": ["r/a@sha256:1", "r/a:1"]}, {"names": None}]

    assert images_of(moment(view=named).view) == {"cp-0": {"r/a:1"}, "w-0": {"r/a:1"}}
    assert images_of(AFTER.view) == {"cp-0": frozenset(), "w-0": frozenset()}


def shims(*found: Json) -> Observation:
    """Return a moment in which the worker's containerd, which began at second 1000, has these shims."""
    one = {"pod": "a1", "said": f"  Version:  v{NEW}", "started": 1100.0, "children": 2}

    def runs(raw: Json) -> None:
        raw["shims"] = [{**one, **more} for more in found]

    return with_runtime(moment(view=told(NEW), runs=runs, of="w-0"), NEW)


def test_shims_of_the_runtime_and_older_ones_of_pods_that_run_on_pass() -> None:
    seen = shims({}, {"said": f"  Version:  v{OLD}", "started": 900.0})
    assert wrong_shims(seen) == []
    assert older_shims(seen) == "1 of 3 pods run under the shims of before, until they start anew"


@pytest.mark.parametrize(
    ("shim", "words"),
    [
        ({"said": f"  Version:  v{OLD}"}, "began after containerd"),
        ({"children": 0}, "left behind"),
        ({"said": "", "started": 900.0}, "tells its version"),
    ],
)
def test_a_shim_of_another_version_and_one_that_runs_nothing_are_found(shim: Json, words: str) -> None:
    (found,) = wrong_shims(shims({}, shim))
    assert words in str(found)


def test_a_machine_without_shims_is_found() -> None:
    (found,) = wrong_shims(shims())
    assert found.where == "w-0"
