"""Whether the definitions that a cluster serves have all that this version's kinds have.

Within v1alpha1, definitions only gain fields and choices. So one that has more than ours is newer and will do, and one
that lacks something of ours is older: what controllers write into the missing fields would be dropped without a word.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CRD
from harness.operator.api.base import Schema
from harness.operator.api.crds import DIGEST, crds
from harness.operator.api.resources import VERSION

SHOWN = 3  # missing fields that a sentence names
REMEDY = "apply those of this version: vmatrix operator crds | kubectl apply --server-side -f -"


def crds_older(cluster: Cluster) -> list[str]:
    """Return a sentence for each definition that is missing or older than this version's. Raises ApiFailure."""
    found = ((ours, cluster.get(CRD, ours["metadata"]["name"])) for ours in crds())
    return [sentence for ours, theirs in found for sentence in _older(ours, theirs)]


def lacking(ours: Json, theirs: Json) -> list[str]:
    """Return the fields, choices and settings of our definition that another one does not have."""
    if dig(ours, "metadata", "annotations", DIGEST) == dig(theirs, "metadata", "annotations", DIGEST):
        return []
    other = set(_features(theirs))
    return [feature for feature in _features(ours) if feature not in other]


def _older(ours: Json, theirs: Json | None) -> Iterator[str]:
    name = ours["metadata"]["name"]
    if theirs is None:
        yield f"the definition {name} is missing: {REMEDY}"
    elif missing := lacking(ours, theirs):
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        yield f"the definition {name} is older than the operator, without {', '.join(missing[:SHOWN])}{more}: {REMEDY}"


def _features(crd: Json) -> Iterator[str]:
    served = [v for v in crd["spec"]["versions"] if v["name"] == VERSION and v["served"]]
    for version in served:
        yield f"version {VERSION}"
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
