"""What a machine printed is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from harness.validate.facts.node import certificate_of, facts_of, version_in
from tests.unit.validate import foreign


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Kubernetes v1.36.3", "1.36.3"),
        ("containerd github.com/containerd/containerd/v2 v2.4.2 0123abc", "2.4.2"),
        ("runc version 1.5.2\nspec: 1.3.0", "1.5.2"),
        ("CNI bridge plugin v1.9.1\nCNI protocol versions supported: 0.1.0", "1.9.1"),
        ("v1.37.0-rc.1", "1.37.0-rc.1"),
        ("failed: timed out", ""),
        (None, ""),
    ],
)
def test_a_version_is_read_from_what_a_program_says(said: str | None, version: str) -> None:
    assert version_in(said) == version


def test_etcds_file_of_variables_is_read_as_systemd_does() -> None:
    raw = foreign.raw_facts("cp-0")
    raw["environment_file"] = (
        """ETCD_NAME='cp-0'\nETCD_INITIAL_CLUSTER="a=https://a:2380,\\\nb=https://b:2380"\nOTHER=x\n"""
    )
    environment = facts_of(raw).environment
    assert environment == {"name": "cp-0", "initial-cluster": "a=https://a:2380,b=https://b:2380"}


@pytest.mark.parametrize("written", ["O=system:nodes,CN=system:node:cp-0", "CN=system:node:cp-0,O=system:nodes"])
def test_a_subject_is_the_same_in_whatever_order_a_ca_writes_it(written: str) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string(written)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key(), serial_number=1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    read = certificate_of("kubelet.pem", made.public_bytes(Encoding.PEM).decode())
    assert read.subject == "CN=system:node:cp-0,O=system:nodes"
