"""State that lets no program start once more, and what pods leave behind, is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.kube.resources import POD as PODS
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.topics.node_state import NodeState, broken_state, leaks, node_state_of, pods_on
from tests.unit.validate import guests
from tests.unit.validate.changes import put
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, recorded
from tests.unit.validate.surrounded import setups

WANTED = guests.expected()
RUNNING: Mapping[str, Mapping[str, Any]] = {name: {"clusterDomain": "cluster.local"} for name in ("cp-0", "w-0")}
GONE = "0" * 64
POD = "00000000-0000-4000-8000-000000000000"


def states(change: Change = lambda _: None) -> dict[str, NodeState]:
    """Return what is kept on all machines, that of w-0 changed."""
    raw = {name: recorded(f"state-{name}.json") for name in ("cp-0", "w-0")}
    change(raw["w-0"])
    return {name: node_state_of(one) for name, one in raw.items()}


def pods() -> dict[str, frozenset[str]]:
    """Return the ids of the pods of which the machines have something."""
    return {name: frozenset(one for ids in seen.pods.values() for one in ids) for name, seen in states().items()}


def broken(change: Change = lambda _: None, running: Mapping[str, Mapping[str, Any]] = RUNNING) -> list[Mismatch]:
    return broken_state(states(change), setups(), running, WANTED)


def leaked(change: Change = lambda _: None) -> list[Mismatch]:
    return leaks(states(change), setups(), pods(), WANTED)


def test_only_a_well_guest_passes() -> None:
    assert broken() == []
    assert leaked() == []
    assert broken_state({}, {}, {}, WANTED)
    assert leaks({}, {}, {}, WANTED)


STATE = "/var/lib/kubelet/cpu_manager_state"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["checkpoints"].update({STATE: "it is not JSON: x"}), f"w-0 {STATE}: expected what the next"),
        (
            put("databases", {"/var/lib/etcd/member/snap/db": "it is not a database (bbolt)"}),
            "saw it is not a database",
        ),
        (put("logs", {"/var/lib/etcd/member/wal": "there is none"}), "w-0 /var/lib/etcd/member/wal"),
        (put("endpoints", {"/var/lib/kubelet/config.yaml": "unix:///x is not a socket"}), "unix:///x is not a socket"),
        (put("policies/cpu_manager_state", "static"), f"w-0 {STATE}: expected policyName 'none'; saw 'static'"),
        (put("policies/memory_manager_state", "Static"), "expected policyName 'None'; saw 'Static'"),
        (put("removed", [["etcd", "/var/lib/etcd/x"]]), "w-0 /var/lib/etcd/x: expected the file that etcd has open"),
        (put("lost_sockets", ["/run/containerd/containerd.sock"]), "saw it was removed"),
        (put("command_lines", {"kubelet": [["--v=9"], []]}), "w-0 kubelet: expected the same command line"),
        (put("command_lines", {"kubelet": [[], ["--v=2"]]}), "saw nothing instead of --v=2"),
    ],
)
def test_what_keeps_a_program_from_starting_is_found(change: Change, words: str) -> None:
    (found,) = broken(change)
    assert words in str(found)


@pytest.mark.parametrize(
    ("in_file", "runs_with", "same"),
    [
        ("60s", "1m0s", True),
        ("60s", "1m1s", False),
        ("1.5h", "1h30m0s", True),
        ("100ms", "0.1s", True),
        ("1024Mi", "1Gi", True),
        ("500m", "0.5", True),
        ("10Mi", "10M", False),
        ("systemd", "cgroupfs", False),
        ({"cpu": "1000m"}, {"cpu": "1"}, True),
        ([{"limits": {"memory": "1024Mi"}}], [{"limits": {"memory": "1Gi"}}], True),
        ([{"limits": {"memory": "1024Mi"}}], [], False),
        (True, "true", False),
    ],
)
def test_kubelets_file_may_write_values_in_another_form(in_file: object, runs_with: object, same: bool) -> None:
    setup = {**setups(), "w-0": replace(setups()["w-0"], kubelet={"one": in_file})}
    running = {**RUNNING, "w-0": {**RUNNING["w-0"], "one": runs_with}}
    assert (broken_state(states(), setup, running, WANTED) == []) is same


def test_a_policy_that_kubelet_runs_with_is_right() -> None:
    static = {**RUNNING, "w-0": {**RUNNING["w-0"], "cpuManagerPolicy": "static"}}
    assert broken(put("policies/cpu_manager_state", "static"), static) == []
    (found,) = broken(running=static)
    assert "expected policyName 'static'; saw 'none'" in str(found)


def test_a_file_of_settings_that_kubelet_does_not_run_with_is_found() -> None:
    other = {**RUNNING, "w-0": {"clusterDomain": "other.local"}}
    (found,) = broken(running=other)
    assert (
        str(found)
        == "w-0 kubelet's file clusterDomain: expected 'other.local', with which kubelet runs; saw 'cluster.local'"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda raw: raw["reservations"]["flannel"].update({"10.243.1.9": GONE}),
            "no address reserved for a container",
        ),
        (put("idle_namespaces", ["cni-1"]), "no network namespace without a process; saw cni-1"),
        (put("loose_veths", ["veth1", "veth2"]), "no veth whose other end is on the machine, too; saw veth1, veth2"),
        (put("containers/strangers", ["miner"]), "no container that kubelet has not made; saw miner"),
        (lambda raw: raw["shims"].append(GONE), "nothing of a container that is gone: shims"),
        (lambda raw: raw["task_mounts"].append(GONE), "nothing of a container that is gone: mounts"),
        (lambda raw: raw["pods"]["folder"].append(POD), f"no folder of a pod that is gone; saw {POD}"),
        (lambda raw: raw["pods"]["mount"].append(POD), f"no mount of a pod that is gone; saw {POD}"),
        (lambda raw: raw["pods"]["control group"].append(POD), "no control group of a pod that is gone"),
    ],
)
def test_what_pods_have_left_is_found(change: Change, words: str) -> None:
    (found,) = leaked(change)
    assert words in str(found)
    assert found.where.startswith("w-0")


STATIC = "0" * 32


@pytest.mark.parametrize(("running", "words"), [([STATIC], []), ([], ["no folder of a pod that is gone"])])
def test_a_static_pod_that_runs_is_not_gone_before_the_api_shows_it(running: list[str], words: list[str]) -> None:
    def change(raw: Json) -> None:
        raw["pods"]["folder"].append(STATIC)
        raw["static_pods"] = running

    assert [found.expected for found in leaked(change)] == words


def test_too_few_addresses_for_all_pods_are_found() -> None:
    def reserve(raw: Json) -> None:
        raw["reservations"]["flannel"].update({f"10.243.1.{last}": f"{last:064}" for last in range(10, 250)})

    reserved, room = map(str, leaked(reserve))
    assert "and 235 more" in reserved
    assert room.endswith("expected addresses for 110 pods (maxPods); saw room for 13")


def test_what_nothing_tells_is_not_judged() -> None:
    assert any(isinstance(one, Unjudged) for one in leaked(put("containers/known", None)))


def test_a_static_pod_is_kept_under_the_id_of_its_manifest() -> None:
    found = pods_on(KeptApi())
    static = [one for one in KeptApi().list(PODS).items if "kubernetes.io/config.hash" in notes_of(one)]
    for pod in static:
        assert notes_of(pod)["kubernetes.io/config.hash"] in found[pod["spec"]["nodeName"]]


def notes_of(pod: Json) -> dict[str, str]:
    return dict(pod["metadata"].get("annotations", {}))


def test_a_file_of_settings_that_kubelet_cannot_read_is_found() -> None:
    broken_file = setups(lambda raw: raw.update(kubelet="a: [b"))
    (found,) = broken_state(states(), broken_file, RUNNING, WANTED)
    assert str(found).startswith(
        "w-0 kubelet's file: expected settings that its next start can use; saw it is not YAML"
    )
