"""The storage class of pods, and what provides for its claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness.embedded.cdi.provisioner import DEFAULT_CLASS, default_class
from harness.embedded.operands import PROVISIONER, storage_class
from harness.infra.pods import claims
from harness.infra.pods.machine import IMAGES, NAMESPACE_NAME, BootDisk, PodsMachine
from harness.model import Mirror

VERSIONS = {name: f"1.{number}" for number, name in enumerate(IMAGES)}
MACHINE = PodsMachine("vmatrix-a-pods", "", Mirror("http://m", "r:5000"), BootDisk("d", "0"), VERSIONS, Path())


@pytest.fixture
def objects() -> dict[str, claims.Json]:
    """Return the objects, by kind."""
    made = claims.objects(MACHINE)
    assert sorted(body["kind"] for body in made) == sorted(kind.kind for kind in claims.KINDS)
    return {body["kind"]: body for body in made}


def test_the_class_is_neither_the_default_one_nor_cdis(objects: dict[str, claims.Json]) -> None:
    made = objects["StorageClass"]
    assert made["metadata"] == {"name": claims.CLASS}
    assert not set(DEFAULT_CLASS) & set(made["metadata"].get("annotations") or {})
    assert made["provisioner"] != PROVISIONER  # only classes of that one have a StorageProfile
    assert default_class([made, storage_class()]) == storage_class()["metadata"]["name"]


def test_claims_are_of_the_machine_alone(objects: dict[str, claims.Json]) -> None:
    wanted = {"key": "vmatrix.dev/runs-pods", "values": ["true"]}
    assert objects["StorageClass"]["allowedTopologies"] == [{"matchLabelExpressions": [wanted]}]
    config = objects["ConfigMap"]["data"]
    assert [entry["node"] for entry in json.loads(config["config.json"])["nodePathMap"]] == ["vmatrix-a-pods"]
    assert '"$VOL_DIR"' in config["setup"]


def test_its_pods_run_images_of_the_instances_registry_and_never_on_the_hosts_node(
    objects: dict[str, claims.Json],
) -> None:
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    helper = yaml.safe_load(objects["ConfigMap"]["data"]["helperPod.yaml"])
    used = [spec["containers"][0]["image"], helper["spec"]["containers"][0]["image"]]
    assert used == ["r:5000/local-path-provisioner:1.1", "r:5000/e2e-test-images/busybox:1.2"]
    assert spec["nodeSelector"] == {"vmatrix.dev/runs-pods": "true"}


def test_what_has_a_namespace_is_in_the_machines_and_goes_with_it(objects: dict[str, claims.Json]) -> None:
    namespaced = {kind.kind for kind in claims.KINDS if kind.namespaced}
    assert {objects[kind]["metadata"]["namespace"] for kind in namespaced} == {NAMESPACE_NAME}
