"""The launcher pod, and what it asks of the scheduler."""

from __future__ import annotations

import pytest

from harness.embedded.vmi.launcher import (
    MIB,
    compute,
    cpu_request,
    guest_memory,
    launcher_pod,
    memory_overhead,
    pod_name,
    requested_memory,
    vcpus,
)
from tests.unit.embedded.recording import Json, versions
from tests.unit.embedded.vmi.samples import vmi


def test_repeated_create_makes_the_same_pod() -> None:
    assert pod_name(vmi()) == pod_name(vmi())
    assert launcher_pod(vmi())["metadata"]["name"].startswith("virt-launcher-cp-0-")


def test_launcher_asks_for_what_the_recorded_one_asked() -> None:
    made, recorded = launcher_pod(versions("vmi")[1]), versions("pod")[0]
    assert made["metadata"]["labels"] == recorded["metadata"]["labels"]
    assert made["metadata"]["annotations"] == recorded["metadata"]["annotations"]
    assert made["metadata"]["ownerReferences"] == recorded["metadata"]["ownerReferences"]
    for key in (
        "affinity",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "hostname",
        "nodeSelector",
        "readinessGates",
        "restartPolicy",
        "securityContext",
        "terminationGracePeriodSeconds",
    ):
        assert made["spec"][key] == recorded["spec"][key], key
    for kind in ("containers", "initContainers"):
        mine, theirs = made["spec"][kind][0], recorded["spec"][kind][0]
        for key in ("name", "image", "resources", "securityContext"):
            assert mine[key] == theirs[key], (kind, key)


def test_launcher_mounts_what_the_recorded_one_mounted() -> None:
    made, recorded = launcher_pod(versions("vmi")[1]), versions("pod")[0]
    assert [v["name"] for v in made["spec"]["volumes"]] == [v["name"] for v in recorded["spec"]["volumes"]]


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ({"cpu": {"cores": 2}}, 2),
        ({"cpu": {"cores": 2, "sockets": 2, "threads": 2}}, 8),
        ({"cpu": {"model": "host-model"}, "resources": {"requests": {"cpu": "1500m"}}}, 2),
        ({"resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}}, 3),
        ({}, 1),
    ],
)
def test_virtual_cpus(domain: Json, expected: int) -> None:
    assert vcpus({"domain": domain}) == expected
    assert cpu_request({"domain": domain}) == f"{expected * 100}m"


def test_memory_asked_of_the_scheduler() -> None:
    spec = vmi()["spec"]
    assert guest_memory(spec) == 2048 * MIB
    assert memory_overhead(spec) == 276 * MIB
    no_graphics = {"domain": {**spec["domain"], "devices": {"autoattachGraphicsDevice": False}}}
    assert memory_overhead(no_graphics) == 244 * MIB


def test_an_instance_that_requests_less_than_its_memory_is_asked_for_that_alone() -> None:
    spec = vmi()["spec"]
    domain = {**spec["domain"], "resources": {"requests": {"memory": "1Gi"}}}
    assert (requested_memory({"domain": domain}), guest_memory({"domain": domain})) == (1024 * MIB, 2048 * MIB)
    assert memory_overhead({"domain": domain}) == 278 * MIB, "page tables for what is requested"
    domain["resources"]["overcommitGuestOverhead"] = True
    assert memory_overhead({"domain": domain}) == 0
    asked = compute({"spec": {"domain": domain}})["resources"]["requests"]["memory"]
    assert asked == "1024Mi"
