"""Whether an instance could be moved, in KubeVirt's words."""

from __future__ import annotations

import pytest

from harness.embedded.vmi.migratable import with_migratable
from harness.kube.objects import condition
from tests.unit.embedded.recording import Json, versions


def test_a_bridged_machine_says_what_was_recorded() -> None:
    scheduled, asked = versions("vmi")[4:6]
    assert with_migratable(scheduled) == asked["status"]["conditions"]


def machine(binding: str, modes: list[str] | None = None, *, allowed: bool = False) -> Json:
    info = {"persistentVolumeClaimInfo": {"accessModes": modes}} if modes is not None else {}
    notes = {"kubevirt.io/allow-pod-bridge-network-live-migration": ""} if allowed else {}
    return {
        "metadata": {"annotations": notes},
        "spec": {
            "domain": {"devices": {"interfaces": [{"name": "default", binding: {}}]}},
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "dataVolume": {"name": "disk"}}, {"name": "seed", "cloudInitNoCloud": {}}],
        },
        "status": {"volumeStatus": [{"name": "root", **info}]},
    }


def judged(vmi: Json) -> tuple[str, str, str]:
    found = {"status": {"conditions": with_migratable(vmi)}}
    live, storage = condition(found, "LiveMigratable"), condition(found, "StorageLiveMigratable")
    assert live is not None
    assert storage is not None
    return str(live.get("reason", live["status"])), str(live.get("message", "")), str(storage.get("reason", "True"))


NOT_SHARED = "PVC disk is not shared, live migration requires that all PVCs must be shared"


@pytest.mark.parametrize(
    ("vmi", "live", "said", "storage"),
    [
        (
            machine("bridge", ["ReadWriteMany"]),
            "InterfaceNotLiveMigratable",
            "does not use masquerade",
            "NotMigratable",
        ),
        (machine("masquerade", ["ReadWriteMany"]), "True", "", "True"),
        (machine("masquerade", ["ReadWriteOnce"]), "DisksNotLiveMigratable", NOT_SHARED, "True"),
        (machine("masquerade"), "DisksNotLiveMigratable", "Unable to determine if PVC disk is shared", "True"),
        (machine("bridge", ["ReadWriteOnce"], allowed=True), "DisksNotLiveMigratable", NOT_SHARED, "True"),
    ],
)
def test_what_keeps_a_machine_where_it_is(vmi: Json, live: str, said: str, storage: str) -> None:
    reason, message, of_storage = judged(vmi)
    assert (reason, of_storage) == (live, storage)
    assert said in message
