"""CustomResourceDefinitions made from models, as objects and as text, and the columns that kubectl shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel

from harness.files import IndentedDumper
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.kinds.models import VALIDATIONS, Schema
from harness.kube.objects import dig
from harness.kube.resources import CRD, Resource

KEPT = (
    *("type", "description", "default", "enum", "pattern", "format", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "maxProperties", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    VALIDATIONS,
)
FREE = "x-kubernetes-preserve-unknown-fields"
# The API server's own; rules may name the object's name.
OUTSIDE: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def structural(model: type[BaseModel]) -> Schema:
    """Return the schema of a kind, with apiVersion, kind and metadata left to the API server."""
    whole = model.model_json_schema()
    made = _node(whole, whole.get("$defs", {}))
    made["properties"] = {
        **OUTSIDE,
        **{name: schema for name, schema in made["properties"].items() if name not in OUTSIDE},
    }
    made["required"] = [name for name in made.get("required", ()) if name not in OUTSIDE]
    if "status" in made["properties"]:
        made["properties"]["status"] = _without_defaults(made["properties"]["status"])
    return {name: value for name, value in made.items() if value != []}


def _without_defaults(schema: Any) -> Any:
    """Return a status' schema without defaults: what no controller wrote is not there."""
    if isinstance(schema, list):
        return [_without_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = "default" in schema and ("type" in schema or FREE in schema)
    return {name: _without_defaults(item) for name, item in schema.items() if not (plain and name == "default")}


def _node(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    whole = _resolved(schema, defs)
    made: Schema = {name: whole[name] for name in KEPT if name in whole and whole.get(name) is not None}
    if "const" in whole:
        made["enum"] = [whole["const"]]
    if "items" in whole:
        made["items"] = _node(whole["items"], defs)
    if "properties" in whole:
        made["properties"] = {name: _node(inner, defs) for name, inner in whole["properties"].items()}
    elif made.get("type") == "object":
        made |= _map(whole.get("additionalProperties", True), defs)
    if "description" in made:
        made["description"] = " ".join(made["description"].split())
    return made


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """Return a schema without references and without null; what stands beside them wins."""
    beside = {name: value for name, value in schema.items() if name not in ("$ref", "anyOf", "allOf")}
    if "$ref" in schema:
        return {**_resolved(defs[schema["$ref"].rpartition("/")[2]], defs), **beside}
    if "anyOf" in schema:
        (chosen,) = (option for option in schema["anyOf"] if option.get("type") != "null")
        return {**_resolved(chosen, defs), **beside}
    return beside


def _map(values: Any, defs: Mapping[str, Any]) -> Schema:
    """Return the part of a map's schema that tells of its values; without a schema of them it is free-form."""
    inner = _node(values, defs) if isinstance(values, Mapping) else {}
    return {"additionalProperties": inner} if "type" in inner else {FREE: True}


@dataclass(frozen=True)
class KindOfObject:
    """A kind of one version: its model, its names in the API, columns, fields to select by.

    replicas: the field of the status with the replicas that there are, of a kind that `kubectl scale` knows; its spec
        has `replicas` as well.
    """

    model: type[BaseModel]
    resource: Resource
    short: str
    category: str
    columns: tuple[Schema, ...]
    selectable: tuple[str, ...] = ()
    replicas: str = ""

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
            "subresources": {"status": {}, **self._scale()},
            "additionalPrinterColumns": list(self.columns),
            **fields,
            "schema": {"openAPIV3Schema": structural(self.model)},
        }
        spec = {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        }
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
        meta = {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {digest_annotation(resource.group): digest},
        }
        return {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": meta, "spec": spec}

    def _scale(self) -> Json:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": self.replicas}
        return {"scale": paths} if self.replicas else {}


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


SHOWN = 3  # missing fields that a sentence names


def older(cluster: Cluster, definitions: Iterable[Json]) -> Iterator[str]:
    """Yield a few words for each definition that is missing in a cluster or older than ours. Raises ApiFailure."""
    for ours in definitions:
        name = ours["metadata"]["name"]
        theirs = cluster.get(CRD, name)
        missing = lacking(ours, theirs) if theirs is not None else []
        if theirs is None:
            yield f"the definition {name} is missing"
        elif missing:
            more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
            yield f"the definition {name} is older than the operator, without {', '.join(missing[:SHOWN])}{more}"


def lacking(ours: Json, theirs: Json) -> list[str]:
    """Return the fields, choices and settings of our definition that another one does not have."""
    digest = digest_annotation(ours["spec"]["group"])
    if dig(ours, "metadata", "annotations", digest) == dig(theirs, "metadata", "annotations", digest):
        return []
    served = ours["spec"]["versions"][0]["name"]
    other = set(_features(theirs, served))
    return [feature for feature in _features(ours, served) if feature not in other]


def _features(crd: Json, served: str) -> Iterator[str]:
    for version in crd["spec"]["versions"]:
        if version["name"] == served and version["served"]:
            yield f"version {served}"
            if "status" in version.get("subresources", {}):
                yield "a status apart"
            yield from _fields(version["schema"]["openAPIV3Schema"], "")


def _fields(schema: Schema, path: str) -> Iterator[str]:
    if path:
        yield path
    yield from (f"{path}={choice}" for choice in schema.get("enum", ()))
    for name, inner in schema.get("properties", {}).items():
        yield from _fields(inner, f"{path}.{name}" if path else name)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], f"{path}[]")
