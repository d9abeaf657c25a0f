"""CustomResourceDefinitions made from models, as objects and as text, and the columns that kubectl shows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import yaml
from pydantic import BaseModel

from harness.indented import IndentedDumper
from harness.kube.failures import Json
from harness.kube.kinds.cel import Schema
from harness.kube.kinds.structural import structural
from harness.kube.resources import CRD, Resource


@dataclass(frozen=True)
class KindOfObject:
    """A namespaced kind of one version: its model, its names in the API, columns, fields to select by."""

    model: type[BaseModel]
    resource: Resource
    short: str
    category: str
    columns: tuple[Schema, ...]
    selectable: tuple[str, ...] = ()

    def definition(self) -> Json:
        """Return the definition, annotated with the digest of its spec."""
        resource = self.resource
        names = {
            "kind": resource.kind,
            "listKind": f"{resource.kind}List",
            "plural": resource.plural,
            "singular": resource.kind.lower(),
            "shortNames": [self.short],
            "categories": [self.category],
        }
        fields = {"selectableFields": [{"jsonPath": path} for path in self.selectable]} if self.selectable else {}
        version = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": list(self.columns),
            **fields,
            "schema": {"openAPIV3Schema": structural(self.model)},
        }
        spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
        meta = {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {digest_annotation(resource.group): digest},
        }
        return {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": meta, "spec": spec}


def digest_annotation(group: str) -> str:
    """Return the annotation of a group's definitions with the digest of their content."""
    return f"{group}/schema"


def column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Schema:
    """Return a column of `kubectl get`: where its text stands in the object; `wide`: only with `-o wide`."""
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}


def condition_path(kind: str, field: str = "status") -> str:
    """Return where a field of a condition stands in an object."""
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


def as_yaml(body: Json) -> str:
    """Return an object as YAML, in which what stands in several places is written in each of them."""
    return yaml.dump(body, Dumper=_WithoutAnchors, sort_keys=False, width=110)


class _WithoutAnchors(IndentedDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True
