"""Settings of running kubelets that are not those of the cell are found."""

from __future__ import annotations

import pytest

from harness.kube.client import Answer
from harness.validate.topics import kubelet
from tests.unit.validate import guests
from tests.unit.validate.guests import Json
from tests.unit.validate.kept import KeptApi

SETTINGS: Json = {
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
    "authorization": {"mode": "Webhook"},
    "rotateCertificates": True,
    "clusterDomain": "cluster.local",
    "clusterDNS": ["10.95.0.10"],
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
}


def test_kubelets_with_the_cells_settings_pass() -> None:
    settings = dict.fromkeys(("cp-0", "w-0"), SETTINGS)
    assert kubelet.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"clusterDNS": ["10.96.0.10"]},
        {"clusterDomain": "other"},
        {"cgroupDriver": "systemd"},
        {"authorization": {"mode": "AlwaysAllow"}},
        {"authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": True}}},
        {"readOnlyPort": 10255},
    ],
)
def test_a_kubelet_with_another_setting_is_found(change: Json) -> None:
    settings = {"cp-0": SETTINGS, "w-0": {**SETTINGS, **change}}
    found = kubelet.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected())
    assert [finding.where for finding in found] == ["w-0 kubelet"]


def test_a_kubelet_that_does_not_tell_its_settings_is_found() -> None:
    found = kubelet.wrong_kubelet_settings({"cp-0": SETTINGS}, "10.95.0.10", guests.expected())
    assert [(finding.where, finding.seen) for finding in found] == [("w-0", "none")]


def test_a_kubelet_that_the_api_server_does_not_reach_is_found_with_the_reason() -> None:
    refused = Answer(502, {"message": "x509: certificate signed by unknown authority"}, ())
    path = "/api/v1/nodes/{}/proxy/configz".format
    api = KeptApi(answers={path("cp-0"): Answer(200, {"kubeletconfig": SETTINGS}, ()), path("w-0"): refused})
    settings, silent = kubelet.asked_kubelets(api, guests.expected())
    found = kubelet.wrong_kubelet_settings(settings, "10.95.0.10", guests.expected(), silent)
    assert [str(one) for one in found] == [
        "w-0 kubelet: expected its configuration; saw 502: x509: certificate signed by unknown authority"
    ]
