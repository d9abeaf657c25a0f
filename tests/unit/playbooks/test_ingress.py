"""Traefik: what it is told, where it listens, and what it may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.test_templates import render

TRAEFIK = {"cluster_traefik_version": "3.6.12"}
FILES = frozenset({"traefik.yml", "chosen.json"})
ENDPOINT = "--providers.kubernetesingress.ingressendpoint."
DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def objects(topology: str, directory: Path, **more: Any) -> dict[str, Any]:
    """Return what is applied, by kind."""
    rendered = render(topology, directory, FILES, **{**TRAEFIK, **more})
    return {one["kind"]: one for one in yaml.safe_load_all((rendered / "traefik.yml").read_text(encoding="utf-8"))}


def container_of(there: dict[str, Any]) -> dict[str, Any]:
    (found,) = there["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def endpoint_of(there: dict[str, Any]) -> list[str]:
    return [one.removeprefix(ENDPOINT) for one in container_of(there)["args"] if one.startswith(ENDPOINT)]


def test_it_serves_at_every_node_without_rights_on_the_machine(tmp_path: Path) -> None:
    there = objects("cp1-w1", tmp_path)
    container = container_of(there)
    assert container["image"] == "10.0.0.1:5000/traefik:v3.6.12"
    assert {port["name"]: port.get("hostPort") for port in container["ports"]} == {
        "web": 80,
        "websecure": 443,
        "traefik": None,
    }
    security = container["securityContext"]
    assert security["runAsNonRoot"]
    assert security["runAsUser"] > 0
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert there["DaemonSet"]["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_it_may_write_the_status_of_ingresses_alone(tmp_path: Path) -> None:
    rules = objects("cp1-w1", tmp_path)["ClusterRole"]["rules"]
    verbs = {name: rule["verbs"] for rule in rules for name in rule["resources"]}
    assert {name for name, allowed in verbs.items() if set(allowed) - {"list", "watch"}} == {"ingresses/status"}
    assert verbs["ingresses/status"] == ["update"]


@pytest.mark.parametrize(
    ("topology", "given", "said"),
    [
        ("cp1-w1", {}, ["ip=10.0.0.3"]),
        ("all-in-one", {}, ["ip=10.0.0.2"]),
        ("cp1-w1", {"cluster_ingress_address": "192.0.2.7"}, ["ip=192.0.2.7"]),
        ("cp1-w1", {"cluster_ingress_address": "fd00::7"}, ["ip=fd00::7"]),
        ("cp1-w1", {"cluster_ingress_address": "edge.example"}, ["hostname=edge.example"]),
        ("cp1-w1", {"cluster_ingress_address": ""}, []),
    ],
)
def test_ingresses_show_a_node_unless_somebody_says_other(
    topology: str, given: dict[str, Any], said: list[str], tmp_path: Path
) -> None:
    assert endpoint_of(objects(topology, tmp_path, **given)) == said


@pytest.mark.parametrize("default", [True, False])
def test_its_class_is_the_default_or_not(default: bool, tmp_path: Path) -> None:
    made = objects("cp1-w1", tmp_path, cluster_ingress_default_class=default)["IngressClass"]
    assert made["metadata"]["annotations"] == {DEFAULT: "true" if default else "false"}


def test_nothing_of_it_is_applied_without_its_version(tmp_path: Path) -> None:
    rendered = render("cp1-w1", tmp_path, FILES)
    assert "traefik" not in (rendered / "chosen.json").read_text(encoding="utf-8")
