"""The CustomResourceDefinitions of the kinds, made from their models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import yaml
from pydantic import BaseModel

from harness.kube.client import Json
from harness.kube.resources import CRD, Resource
from harness.operator.api import columns
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.machineset import MachineSet
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, GROUP, MACHINE, MACHINE_SET
from harness.operator.api.structural import structural

DIGEST = f"{GROUP}/schema"  # annotation: the digest of the definition's content
HEADER = "# Written by `vmatrix operator crds --write` from harness/operator/api. Do not edit.\n"


@dataclass(frozen=True)
class KindOfObject:
    """What a definition is made of: the model, its name in the API, columns, fields to select by."""

    model: type[BaseModel]
    resource: Resource
    short: str
    columns: columns.Columns
    selectable: tuple[str, ...] = ()


KINDS = (
    KindOfObject(ClusterDeployment, CLUSTER_DEPLOYMENT, "vcd", columns.CLUSTER_DEPLOYMENT_COLUMNS),
    KindOfObject(DeclaredCluster, CLUSTER, "vcl", columns.CLUSTER_COLUMNS),
    KindOfObject(MachineSet, MACHINE_SET, "vms", columns.MACHINE_SET_COLUMNS),
    KindOfObject(DeclaredMachine, MACHINE, "vma", columns.MACHINE_COLUMNS, (".spec.claim.cluster", ".status.phase")),
)


def crds() -> list[Json]:
    """Return the definitions of all kinds."""
    return [_definition(kind) for kind in KINDS]


def files() -> dict[str, str]:
    """Return the definitions as files, text by name."""
    return {
        f"{body['metadata']['name'].partition('.')[0]}.yml": HEADER
        + yaml.dump(body, Dumper=WithoutAnchors, sort_keys=False, width=110)
        for body in crds()
    }


def _definition(kind: KindOfObject) -> Json:
    resource = kind.resource
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "shortNames": [kind.short],
        "categories": ["vmatrix"],
    }
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(kind.columns),
        **_selectable(kind.selectable),
        "schema": {"openAPIV3Schema": structural(kind.model)},
    }
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    content = json.dumps(spec, sort_keys=True).encode()
    meta = {
        "name": f"{resource.plural}.{resource.group}",
        "annotations": {DIGEST: hashlib.sha256(content).hexdigest()[:16]},
    }
    return {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": meta, "spec": spec}


def _selectable(paths: Sequence[str]) -> Json:
    return {"selectableFields": [{"jsonPath": path} for path in paths]} if paths else {}


class WithoutAnchors(yaml.SafeDumper):
    """Writes what stands in several places in each of them, and lists further in than their names."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)
