"""What a machine printed is read."""

from __future__ import annotations

import pytest

from harness.validate.facts.node import facts_of, version_in
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
