"""What befalls launcher pods."""

from __future__ import annotations

from harness.embedded.faults import Faults, launchers
from tests.unit.embedded.faults.samples import pod


def test_the_scheduler_is_asked_for_what_no_node_has() -> None:
    asked = launchers.asking(Faults(), pod(unschedulable=""))
    assert asked["spec"]["containers"][0]["resources"]["requests"]["devices.kubevirt.io/kvm"] == "2k"
    asked = launchers.asking(Faults(), pod(unschedulable="{cpu_model: Cooperlake}"))
    assert asked["spec"]["nodeSelector"] == {"cpu-model.node.kubevirt.io/Cooperlake": "true"}


def test_an_image_that_cannot_be_pulled_looks_as_a_kubelet_writes_it() -> None:
    status = launchers.not_started(Faults(), pod(image_pull=""))
    assert isinstance(status, dict)
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "launcher:1"'}
    assert status["phase"] == "Pending"
