"""Whether the definitions that a cluster serves have all that this version's have.

Within a version of a group, definitions only gain fields and choices. So one that has more than ours is newer and will
do, and one that lacks something of ours is older: what is written into the missing fields would be dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.kinds.cel import Schema
from harness.kube.kinds.definition import digest_annotation
from harness.kube.objects import dig
from harness.kube.resources import CRD

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
