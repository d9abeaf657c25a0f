"""Where the cluster's CA is external: its keys are on no machine, and it has signed what machines work with."""

from __future__ import annotations

import pytest

from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import external_ca
from harness.validate.variables import EXTERNAL_CA, asks


@pytest.mark.when(phase=asks(EXTERNAL_CA))
def test_no_machine_has_the_key_of_a_ca(inspection: Inspection) -> None:
    require(
        external_ca.found_keys(inspection.authorities, inspection.expected),
        claim="no file of a machine holds the key of the cluster's, the front proxy's or etcd's CA",
        look="whoever put it there; cluster_external_ca keeps these keys on the controller",
        do=on_machine(inspection.expected, "grep -rl BEGIN.*PRIVATE /etc/kubernetes /var/lib/kubelet /root"),
    )


@pytest.mark.when(phase=asks(EXTERNAL_CA))
def test_certificates_are_signed_by_the_external_cas(inspection: Inspection) -> None:
    require(
        [
            *external_ca.foreign_certificates(inspection.authorities, inspection.expected),
            *external_ca.strange_authorities(inspection.authorities, inspection.expected),
        ],
        claim="certificates of programs, kubeconfigs and kubelets are signed by the cluster's CAs",
        look="roles/external_ca; the folder with the CAs on the controller",
        do=on_machine(inspection.expected, "openssl verify -CAfile CA CERTIFICATE"),
    )
