"""The kinds of snapshots, as far as CDI's clients use them; a cluster that has the real ones keeps them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
GROUP = "snapshot.storage.k8s.io"
# Groups below k8s.io want to know who approved a kind: https://github.com/kubernetes/enhancements/pull/1111
APPROVAL = {"api-approved.kubernetes.io": "unapproved, a stand-in with the fields that are used"}
TEXT: Json = {"type": "string"}
TIME: Json = {"type": "string", "format": "date-time"}
QUANTITY: Json = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": "^([0-9.]+)([KMGTPE]i|[numkMGTPE])?$",
}


def snapshot_kinds() -> list[Json]:
    """Return the definitions of VolumeSnapshot and VolumeSnapshotClass."""
    source = {"type": "object", "properties": {"persistentVolumeClaimName": TEXT, "volumeSnapshotContentName": TEXT}}
    error = {"type": "object", "properties": {"message": TEXT, "time": TIME}}
    snapshot = {
        "spec": {
            "type": "object",
            "required": ["source"],
            "properties": {"source": source, "volumeSnapshotClassName": TEXT},
        },
        "status": {
            "type": "object",
            "properties": {
                "boundVolumeSnapshotContentName": TEXT,
                "creationTime": TIME,
                "error": error,
                "readyToUse": {"type": "boolean"},
                "restoreSize": QUANTITY,
            },
        },
    }
    parameters = {"type": "object", "additionalProperties": TEXT}
    of_a_class = {"driver": TEXT, "deletionPolicy": {"type": "string", "enum": ["Delete", "Retain"]}}
    return [
        _definition("VolumeSnapshot", "volumesnapshots", "Namespaced", snapshot, ["spec"]),
        _definition(
            "VolumeSnapshotClass",
            "volumesnapshotclasses",
            "Cluster",
            {**of_a_class, "parameters": parameters},
            list(of_a_class),
        ),
    ]


def _definition(kind: str, plural: str, scope: str, properties: Json, required: list[str]) -> Json:
    schema = {
        "type": "object",
        "required": required,
        "properties": {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}, **properties},
    }
    version: Json = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if "status" in properties:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": APPROVAL},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    }
