"""An upgrade is seen by what ran before and what runs after: whatever was not changed, or not looked at, is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import real
from harness.validate.phases import upgrade
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
