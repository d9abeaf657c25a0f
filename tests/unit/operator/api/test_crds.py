"""The definitions are what the models say, and the committed files are the definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from harness.operator.api.crds import crds, files
from tests.unit.pages import ROOT

FOLDER = ROOT / "deploy" / "operator" / "crds"
KINDS = {
    "ClusterDeployment": "vcd",
    "Cluster": "vcl",
    "MachineSet": "vms",
    "Machine": "vma",
    "EtcdCluster": "vec",
    "EtcdPeer": "vep",
    "EtcdBackup": "veb",
    "EtcdRestore": "ver",
    "ClusterUser": "vcu",
    "ClusterNetworkPool": "vnp",
    "Delivery": "vdl",
}

Json = dict[str, Any]


def schema_of(body: Json) -> Json:
    """Return the schema of a definition's only version."""
    (version,) = body["spec"]["versions"]
    schema: Json = version["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every schema inside of a schema, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


EVERY = [
    (body["spec"]["names"]["kind"] + path, node)
    for body in crds()
    for path, node in nodes(schema_of(body))
    if path.startswith((".spec", ".status"))
]


def test_the_committed_files_are_those_of_the_models() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yml")}
    assert found == files(), "run `vmatrix operator crds --write`"


def test_the_files_are_the_definitions() -> None:
    assert [yaml.safe_load(text) for text in files().values()] == crds()


def test_every_kind_has_its_names() -> None:
    named = {body["spec"]["names"]["kind"]: body["spec"]["names"]["shortNames"] for body in crds()}
    assert named == {kind: [short] for kind, short in KINDS.items()}
    for body in crds():
        assert body["spec"]["names"]["categories"] == ["vmatrix"]
        shared = body["spec"]["names"]["kind"] == "ClusterNetworkPool"
        assert body["spec"]["scope"] == ("Cluster" if shared else "Namespaced")
        replicas = {"MachineSet": ".status.claimed", "EtcdCluster": ".status.replicas"}.get(
            body["spec"]["names"]["kind"]
        )
        scale = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": replicas}} if replicas else {}
        assert body["spec"]["versions"][0]["subresources"] == {"status": {}, **scale}


def unstructured(node: Json) -> Iterator[str]:
    """Yield why an API server would not take a schema as a structural one."""
    if node.get("type") not in {"object", "array", "string", "integer", "boolean"}:
        yield f"type {node.get('type')}"
    yield from {"$ref", "$defs", "anyOf", "oneOf", "allOf", "title", "propertyNames"} & node.keys()
    if {"properties", "additionalProperties"} <= node.keys():
        yield "properties and additionalProperties"
    free = {"x-kubernetes-preserve-unknown-fields", "properties", "additionalProperties"} & node.keys()
    if node.get("type") == "object" and not free:
        yield "an object of nothing"


def unbounded(node: Json) -> Iterator[str]:
    """Yield which bounds a schema lacks."""
    if node["type"] == "string" and not {"maxLength", "enum"} & node.keys():
        yield "maxLength"
    if node["type"] == "array" and "maxItems" not in node:
        yield "maxItems"
    if node["type"] == "array" and node.get("x-kubernetes-list-type") not in {"map", "set", "atomic"}:
        yield "x-kubernetes-list-type"
    if "additionalProperties" in node and "maxProperties" not in node:
        yield "maxProperties"


def test_every_schema_is_structural() -> None:
    assert len(EVERY) > 600
    assert [(path, why) for path, node in EVERY for why in unstructured(node)] == []


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({}, ["type None"]),
        ({"type": "number"}, ["type number"]),
        ({"type": "string", "anyOf": []}, ["anyOf"]),
        ({"type": "object"}, ["an object of nothing"]),
        ({"type": "object", "properties": {}, "additionalProperties": {}}, ["properties and additionalProperties"]),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, []),
    ],
)
def test_a_schema_that_is_not_structural_is_found(node: Json, why: list[str]) -> None:
    assert list(unstructured(node)) == why


FREE = "x-kubernetes-preserve-unknown-fields"
PLACE = re.compile(r"\bself((?:\.[A-Za-z_]\w*)+)(?!\w|\()")


def unseen(node: Json) -> Iterator[str]:
    """Yield what rules of a schema look into though CEL sees nothing of it: objects of any form."""
    for rule in node.get("x-kubernetes-validations", ()):
        for place in PLACE.findall(rule["rule"]):
            inner = node
            for name in place.removeprefix(".").split("."):
                inner = inner.get("properties", {}).get(name.strip("_"), {})
                if inner.get(FREE):
                    yield f"{place.removeprefix('.')} in {rule['rule']}"


def test_no_rule_looks_into_objects_of_any_form() -> None:
    rules = [rule for _, node in EVERY for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) > 40
    assert sum(len(PLACE.findall(rule["rule"])) for rule in rules) > 40
    assert [(path, what) for path, node in EVERY for what in unseen(node)] == []


@pytest.mark.parametrize(
    ("rule", "count"),
    [("self.a.b.all(x, x > 0)", 0), ("'x' in self.a.config", 1), ("self.a.config.size() == 0 || has(self.a.b)", 1)],
)
def test_a_rule_that_looks_into_an_object_of_any_form_is_found(rule: str, count: int) -> None:
    inner = {"properties": {"config": {"type": "object", FREE: True}, "b": {"type": "array"}}}
    assert len([*unseen({"properties": {"a": inner}, "x-kubernetes-validations": [{"rule": rule}]})]) == count


def test_every_field_is_described() -> None:
    assert [path for path, node in EVERY if not path.endswith("[]") and not node.get("description")] == []


def test_the_spec_is_bounded_in_every_text_list_and_map() -> None:
    assert [(path, bound) for path, node in EVERY if ".spec" in path for bound in unbounded(node)] == []


@pytest.mark.parametrize(
    ("node", "bounds"),
    [
        ({"type": "string"}, ["maxLength"]),
        ({"type": "string", "enum": []}, []),
        ({"type": "array"}, ["maxItems", "x-kubernetes-list-type"]),
        ({"type": "object", "additionalProperties": {}}, ["maxProperties"]),
    ],
)
def test_a_bound_that_a_schema_lacks_is_found(node: Json, bounds: list[str]) -> None:
    assert list(unbounded(node)) == bounds


def test_free_form_is_what_is_meant_to_be() -> None:
    free = {path for path, node in EVERY if node.get("x-kubernetes-preserve-unknown-fields")}
    assert free == {
        "ClusterDeployment.spec.runtime.config",
        "ClusterDeployment.spec.kubernetes.kubelet.config",
        "ClusterDeployment.spec.kubernetes.kubeProxy.config",
        "ClusterDeployment.spec.kubernetes.scheduler.config",
        "ClusterDeployment.spec.kubernetes.patches",
        "ClusterDeployment.spec.authentication.jwt[].claimMappings",
        "ClusterDeployment.spec.authentication.jwt[].claimValidationRules[]",
        "ClusterDeployment.spec.authentication.jwt[].userValidationRules[]",
        "ClusterDeployment.spec.hardening.auditPolicy",
        "ClusterDeployment.spec.variables",
        "EtcdCluster.spec.variables",
        "Delivery.spec.deploy.template",
        "Cluster.status.applied.variables",
        "Cluster.status.operation.applies.variables",
    }


def test_a_status_has_no_defaults() -> None:
    assert [path for path, node in EVERY if ".status" in path and "default" in node] == []


def test_every_rule_says_what_is_wrong_and_what_to_write() -> None:
    rules = [(path, rule) for path, node in EVERY for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) > 20
    for path, rule in rules:
        what, _, remedy = rule["message"].partition(": ")
        assert what, path
        assert remedy, path
        assert ("oldSelf.hasValue()" in rule["rule"]) == rule.get("optionalOldSelf", False)
