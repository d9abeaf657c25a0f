"""Upgrades are seen by what ran before and what runs after: whatever was not changed, or not looked at, is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model import Cell
from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import Unjudged, real
from harness.validate.phases import upgrade
from harness.validate.phases.observation import Observation
from harness.validate.phases.upgrade import (
    images_of,
    lost_images,
    not_replaced,
    older_shims,
    replaces,
    started_anew,
    staying,
    wrong_running,
    wrong_shims,
)
from tests.unit.validate import foreign
from tests.unit.validate.guests import Json
from tests.unit.validate.moments import moment

OLD, NEW = "1.36.1", "1.36.3"


def test_an_upgrade_of_everything_passes() -> None:
    assert upgrade.not_upgraded(moment(OLD), moment(NEW)) == []


def test_what_has_to_be_seen_is_every_component_on_every_machine() -> None:
    places = upgrade.wanted_versions(moment(NEW))
    for said in ("kubelet, running", "kube-proxy, running", "kube-proxy, image", "kubelet, as its Node reports"):
        assert {f"cp-0: {said}", f"w-0: {said}"} <= places.keys()
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
        assert {f"cp-0: {program}, running", f"cp-0: {program}, image"} <= places.keys()
    assert {"cp-0: API server, its /version", "cp-0: etcd, as it reports", "CoreDNS, running"} <= places.keys()
    assert not any("w-0: kube-apiserver" in place for place in places)


def test_what_was_seen_is_told_side_by_side() -> None:
    told = upgrade.side_by_side(moment(OLD), moment(NEW))
    assert told["w-0: kubelet, running"] == [OLD, NEW]
    assert told.keys() == upgrade.wanted_versions(moment(NEW)).keys()


def test_an_upgrade_that_had_happened_already_fails() -> None:
    found = upgrade.not_upgraded(moment(NEW), moment(NEW))
    assert "at least one component whose version changes" in [f.expected for f in found]


def test_a_record_of_before_that_shows_the_new_version_fails_at_every_place() -> None:
    """The playbooks upgraded on deploy: the phase found nothing to do, and everything is new afterwards."""
    early = moment(NEW)
    lied = replace(early, expected=moment(OLD).expected)
    found = upgrade.not_upgraded(lied, moment(NEW))
    assert {f.where for f in found if "another version than before" in f.expected} == {
        place for place in upgrade.wanted_versions(early) if "etcd" not in place and "CoreDNS" not in place
    }


def program(name: str, change: Callable[[Json], None]) -> Callable[[Json], None]:
    def changed(raw: Json) -> None:
        for one in raw["programs"]:
            if one["name"] == name:
                change(one)

    return changed


def says(text: str) -> Callable[[Json], None]:
    return lambda one: one.update(said=text)


def without(name: str) -> Callable[[Json], None]:
    return lambda raw: raw.update(programs=[one for one in raw["programs"] if one["name"] != name])


FAULTS: list[tuple[str, str, Callable[[Json], None]]] = [
    ("w-0: kubelet, running, after it", "w-0", program("kubelet", says(f"Kubernetes v{OLD}"))),
    ("w-0: kube-proxy, running, after it", "w-0", without("kube-proxy")),
    ("cp-0: kube-scheduler, running, after it", "cp-0", program("kube-scheduler", says(f"Kubernetes v{OLD}"))),
    ("cp-0: etcd, running, after it", "cp-0", program("etcd", says("etcd Version: 3.5.9"))),
    ("CoreDNS, running, after it", "w-0", program("coredns", says("CoreDNS-1.12.0"))),
    (
        "cp-0: kube-apiserver, running, after it",
        "cp-0",
        lambda raw: raw["programs"].append(
            {"name": "kube-apiserver", "pid": 1, "said": f"Kubernetes v{OLD}", "started": 1.0}
        ),
    ),
    (
        "cp-0: API server, its /version, after it",
        "cp-0",
        lambda raw: raw.update(api_version={"status": 200, "body": json.dumps({"gitVersion": f"v{OLD}"})}),
    ),
    (
        "cp-0: API server, its /version, after it",
        "cp-0",
        lambda raw: raw.update(api_version={"status": 0, "body": "refused"}),
    ),
]


@pytest.mark.parametrize(("where", "machine", "fault"), FAULTS)
def test_a_component_that_was_left_behind_is_found(where: str, machine: str, fault: Callable[[Json], None]) -> None:
    assert where in [f.where for f in upgrade.not_upgraded(moment(OLD), moment(NEW, runs=fault, of=machine))]


@pytest.mark.parametrize(("where", "machine", "fault"), FAULTS)
def test_a_component_that_was_not_old_before_is_found(where: str, machine: str, fault: Callable[[Json], None]) -> None:
    found = upgrade.not_upgraded(moment("1.36.0", runs=fault, of=machine), moment(NEW))
    assert where.replace("after it", "before the phase") in [f.where for f in found]


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-scheduler", "kube-proxy"])
def test_a_pod_that_still_runs_the_old_image_is_found(component: str) -> None:
    def old_image(raw: Json) -> None:
        for pod in raw["pods"]:
            for status in pod["status"].get("containerStatuses", []):
                if status["name"] == component:
                    status["image"] = status["image"].replace(NEW, OLD)

    found = upgrade.not_upgraded(moment(OLD), moment(NEW, view=old_image))
    assert any(f"{component}, image, after it" in f.where for f in found)


def test_a_node_whose_kubelet_says_the_old_version_is_found() -> None:
    def old_kubelet(raw: Json) -> None:
        raw["nodes"][-1]["status"]["nodeInfo"]["kubeletVersion"] = f"v{OLD}"

    found = upgrade.not_upgraded(moment(OLD), moment(NEW, view=old_kubelet))
    assert any("kubelet, as its Node reports, after it" in f.where for f in found)


@pytest.mark.parametrize("leaves", [foreign.SAID, foreign.UNSAID], ids=["said", "unsaid"])
def test_an_upgrade_of_another_products_cluster_passes_and_one_that_did_nothing_fails(leaves: ClusterLeaves) -> None:
    before, after = foreign.moment(leaves, OLD), foreign.moment(leaves, NEW)
    assert real(upgrade.not_upgraded(before, after)) == []
    assert real(upgrade.not_upgraded(before, replace(before, expected=after.expected)))
    places = upgrade.wanted_versions(after)
    assert {"cp-0: etcd, running", "w-0: kubelet, running", "cp-0: kube-scheduler, image"} <= places.keys()
    assert "cp-0: etcd, image" not in places  # it is a unit


def test_components_of_which_nothing_shows_a_version_are_named() -> None:
    seen = foreign.moment(foreign.UNSAID, NEW)
    alone = replace(seen, facts={name: replace(facts, processes=()) for name, facts in seen.facts.items()})
    assert {one.expected for one in upgrade.not_judged(alone)} == {
        *("kubelet, running", "kube-proxy, running", "etcd, running"),
        *(f"{program}, running" for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
    }


def prints(name: str, text: str) -> Callable[[Json], None]:
    def change(raw: Json) -> None:
        for one in raw["programs"]:
            one.update({"said": text} if one["name"] == name else {})

    return change


def and_also(name: str, text: str) -> Callable[[Json], None]:
    return lambda raw: raw["programs"].append({"name": name, "said": text})


def test_a_healthy_guest_raises_no_alarm() -> None:
    assert wrong_running(moment()) == []


@pytest.mark.parametrize(
    ("machine", "change", "words"),
    [
        ("cp-0", prints("kube-scheduler", "Kubernetes v1.35.9"), "cp-0: kube-scheduler, running: expected version"),
        ("w-0", prints("containerd", "containerd v2.3.0"), "w-0: containerd, running"),
        ("w-0", prints("flanneld", "v0.1.0"), "w-0: flanneld, running"),
        ("w-0", without("flanneld"), "w-0: flanneld, running"),
        ("w-0", and_also("kube-proxy", "sleep 9.7"), "w-0: kube-proxy, running"),
        ("w-0", prints("coredns", "CoreDNS-1.12.0"), "CoreDNS, running"),
    ],
)
def test_another_version_is_found(machine: str, change: Callable[[Json], None], words: str) -> None:
    (found,) = wrong_running(moment(runs=change, of=machine))
    assert str(found).startswith(words)


@pytest.mark.parametrize("leaves", [foreign.SAID, foreign.UNSAID], ids=["said", "unsaid"])
def test_the_same_guest_as_another_product_lays_it_out_raises_no_alarm(leaves: ClusterLeaves) -> None:
    assert real(wrong_running(foreign.moment(leaves))) == []


OLD_RUNTIME, NEW_RUNTIME = "1.7.35", "2.4.2"


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


BEFORE = with_runtime(moment(view=told(OLD_RUNTIME)), OLD_RUNTIME)
AFTER = with_runtime(moment(view=told(NEW_RUNTIME)), NEW_RUNTIME)


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
    left = with_runtime(
        moment(view=lambda raw: (told(NEW_RUNTIME)(raw), told(OLD_RUNTIME, "w-0")(raw))[0]), NEW_RUNTIME
    )
    (found,) = not_replaced(BEFORE, left)
    assert (found.where, found.seen) == ("w-0, as its Node reports, after it", repr(OLD_RUNTIME))


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
    told(NEW_RUNTIME)(raw)
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
    many = frozenset(f"{number}:1" for number in range(upgrade.MOST_IMAGES))
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
    one = {"pod": "a1", "said": f"  Version:  v{NEW_RUNTIME}", "started": 1100.0, "children": 2}

    def runs(raw: Json) -> None:
        raw["shims"] = [{**one, **more} for more in found]

    return with_runtime(moment(view=told(NEW_RUNTIME), runs=runs, of="w-0"), NEW_RUNTIME)


def test_shims_of_the_runtime_and_older_ones_of_pods_that_run_on_pass() -> None:
    seen = shims({}, {"said": f"  Version:  v{OLD_RUNTIME}", "started": 900.0})
    assert wrong_shims(seen) == []
    assert older_shims(seen) == "1 of 3 pods run under the shims of before, until they start anew"


@pytest.mark.parametrize(
    ("shim", "words"),
    [
        ({"said": f"  Version:  v{OLD_RUNTIME}"}, "began after containerd"),
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
