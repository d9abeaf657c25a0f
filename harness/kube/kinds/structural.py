"""JSON Schemas of models as the structural schemas of CustomResourceDefinitions.

Inlines references, drops titles and null, names free-form objects as such. What the result may look like:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from harness.kube.kinds.cel import Schema
from harness.kube.kinds.models import VALIDATIONS

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
        return [_without_defaults(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = "default" in schema and ("type" in schema or FREE in schema)
    return {name: _without_defaults(one) for name, one in schema.items() if not (plain and name == "default")}


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
        (chosen,) = (one for one in schema["anyOf"] if one.get("type") != "null")
        return {**_resolved(chosen, defs), **beside}
    return beside


def _map(values: Any, defs: Mapping[str, Any]) -> Schema:
    """Return the part of a map's schema that tells of its values; without a schema of them it is free-form."""
    inner = _node(values, defs) if isinstance(values, Mapping) else {}
    return {"additionalProperties": inner} if "type" in inner else {FREE: True}
