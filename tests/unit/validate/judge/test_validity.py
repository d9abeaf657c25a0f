"""Certificates elsewhere than asked for, and valid for another time, are found."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.validate.facts.files import FileRights, MachineFiles
from harness.validate.facts.keys import Kubeconfig, MachineKeys
from harness.validate.facts.node import Certificate, NodeFacts
from harness.validate.judge.validity import other_validity, strayed_certificates
from tests.unit.validate import customised, guests, on_disk

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SSL = "/etc/kubernetes/ssl"


def certificate(path: str, hours: int) -> Certificate:
    end = BEGAN + timedelta(hours=hours)
    return Certificate(path, "CN=one", BEGAN - timedelta(minutes=5), end, ())


def seen(**hours: int) -> tuple[dict[str, NodeFacts], dict[str, MachineKeys]]:
    """Return the certificates of a control plane, some of them valid for other hours."""
    lasts = {"ca": 43800, "server": 4392, "admin": 4392, "kubelet": 8760, **hours}
    files = (certificate(f"{SSL}/ca.crt", lasts["ca"]), certificate(f"{SSL}/etcd/server.crt", lasts["server"]))
    kubelet = certificate("/var/lib/kubelet/pki/kubelet-client-current.pem", lasts["kubelet"])
    configs = {
        path: Kubeconfig("", "", certificate(path, lasts[name]))
        for name, path in (("admin", "/etc/kubernetes/admin.conf"), ("kubelet", "/etc/kubernetes/kubelet.conf"))
    }
    facts = {"cp-0": replace(guests.facts()["cp-0"], certificates=(*files, kubelet))}
    return facts, {"cp-0": MachineKeys({}, {}, configs, "", {})}


def test_certificates_of_the_time_asked_for_pass() -> None:
    assert other_validity(*seen(), customised.expected()) == []
    assert [one.seen for one in other_validity({}, {}, customised.expected())] == ["none"]


@pytest.mark.parametrize(
    ("name", "hours", "words"),
    [
        ("ca", 87600, "/etc/kubernetes/ssl/ca.crt (CN=one): expected valid for 43800 hours; saw 87600 hours"),
        ("server", 8760, "etcd/server.crt (CN=one): expected valid for 4392 hours; saw 8760 hours"),
        ("server", 4390, "saw 4390 hours"),
        ("admin", 8760, "/etc/kubernetes/admin.conf"),
    ],
)
def test_a_certificate_of_another_time_is_found(name: str, hours: int, words: str) -> None:
    (found,) = other_validity(*seen(**{name: hours}), customised.expected())
    assert words in str(found)


def test_a_machine_without_certificates_is_found() -> None:
    facts = {"cp-0": replace(guests.facts()["cp-0"], certificates=())}
    (found,) = other_validity(facts, {}, customised.expected())
    assert str(found) == f"cp-0 {SSL}: expected certificates; saw none"


def files(*paths: str) -> MachineFiles:
    """Return the recorded files of a machine, with these and without those of kubeadm's usual folder."""
    read = on_disk.files()["cp-0"]
    kept = {path: one for path, one in read.files.items() if not path.startswith("/etc/kubernetes/pki/")}
    return replace(read, files={**kept, **dict.fromkeys(paths, FileRights("file", 0o600, 0, 0, secret=False))})


def test_certificates_in_the_usual_folder_are_found() -> None:
    well = {name: files(f"{SSL}/ca.crt", "/etc/kubernetes/pki/init-done") for name in ("cp-0", "w-0")}
    assert strayed_certificates(well, customised.expected()) == []
    strayed = {**well, "w-0": files(f"{SSL}/ca.crt", "/etc/kubernetes/pki/ca.crt")}
    (found,) = strayed_certificates(strayed, customised.expected())
    assert (
        str(found) == f"w-0 /etc/kubernetes/pki/ca.crt: expected no such file: the cell's are in {SSL}; saw it exists"
    )
    (missing,) = strayed_certificates({**well, "w-0": files()}, customised.expected())
    assert str(missing) == f"w-0 {SSL}/ca.crt: expected the cluster's CA; saw none"
