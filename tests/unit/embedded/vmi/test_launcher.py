"""The launcher pod."""

from __future__ import annotations

from harness.embedded.vmi.launcher import launcher_pod, pod_name
from tests.unit.embedded.recording import versions
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
