"""kube-router: which IP families it is told of, and what it may do on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.test_templates import render

VERSION = {"cluster_kube_router_version": "2.6.3"}
DUAL = {"cluster_ipv6_pod_cidr": "fd10:243::/56", "cluster_ipv6_service_cidr": "fd10:96::/112"}
ALONE = {"cluster_pod_cidr": "fd10:243::/56", "cluster_service_cidr": "fd10:96::/112"}


def container_of(directory: Path, **more: Any) -> dict[str, Any]:
    """Return the container that the DaemonSet has."""
    text = (
        render("cp1-w1", directory, frozenset({"kube-router.yml"}), **VERSION, **more) / "kube-router.yml"
    ).read_text()
    (made,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "DaemonSet")
    (found,) = made["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("given", "ipv4", "ipv6", "services"),
    [
        ({}, "true", "false", "10.95.0.0/16"),
        (DUAL, "true", "true", "10.95.0.0/16,fd10:96::/112"),
        (ALONE, "false", "true", "fd10:96::/112"),
    ],
)
def test_it_enforces_in_the_families_that_the_cluster_has(
    given: dict[str, str], ipv4: str, ipv6: str, services: str, tmp_path: Path
) -> None:
    said = container_of(tmp_path, **given)["args"]
    assert {f"--enable-ipv4={ipv4}", f"--enable-ipv6={ipv6}", f"--service-cluster-ip-range={services}"} <= set(said)


def test_it_may_change_rules_and_nothing_else_of_the_machine(tmp_path: Path) -> None:
    container = container_of(tmp_path)
    assert container["image"] == "10.0.0.1:5000/kube-router:v2.6.3"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "volumeMounts" not in container
