"""Where the cell customises kubeadm: volumes of programs, and where certificates are and for how long."""

from __future__ import annotations

import pytest

from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import certificates, customised
from harness.validate.variables import CERTIFICATES, asks, gives_volumes, limits_validity


@pytest.mark.when(phase=gives_volumes)
def test_programs_see_the_volumes_of_the_cell(inspection: Inspection) -> None:
    require(
        customised.other_volumes(inspection.customised, inspection.expected),
        claim="each program of a control plane has the volumes of the cell, from where and with the rights it asks for",
        look="extraVolumes in /etc/kubernetes/kubeadm.yml; the program's manifest",
        do=on_machine(inspection.expected, "findmnt --task $(pidof PROGRAM)"),
    )


@pytest.mark.when(phase=asks(CERTIFICATES))
def test_certificates_are_in_the_folder_of_the_cell(inspection: Inspection) -> None:
    require(
        certificates.strayed_certificates(inspection.files, inspection.expected),
        claim="certificates and keys are in the folder that the cell asks for, and none in kubeadm's usual one",
        look="certificatesDir in /etc/kubernetes/kubeadm.yml; caCertPath in /etc/kubernetes/kubeadm-join.yml",
        do=on_machine(inspection.expected, "ls -R /etc/kubernetes"),
    )


@pytest.mark.when(phase=limits_validity)
def test_certificates_are_valid_for_as_long_as_the_cell_asks(inspection: Inspection) -> None:
    require(
        certificates.other_validity(inspection.facts, inspection.keys, inspection.expected),
        claim="what kubeadm has signed is valid for the time that the cell asks for",
        look="certificateValidityPeriod and caCertificateValidityPeriod in the ConfigMap kubeadm-config",
        do=on_machine(inspection.expected, "kubeadm certs check-expiration"),
    )
