"""What a DataVolume asks for, rendered as the PersistentVolumeClaim that holds it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harness.embedded.cdi import names, sizes
from harness.embedded.objects import dig, owner_reference, quantity
from harness.errors import VmatrixError
from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.resources import DATA_VOLUME

DEFAULT_CLASS = ("storageclass.kubevirt.io/is-default-virt-class", "storageclass.kubernetes.io/is-default-class")


class ClaimNotValid(VmatrixError):
    """The DataVolume's storage cannot be made into a claim; the message goes into its events."""


@dataclass(frozen=True)
class Storage:
    """What the cluster adds to a DataVolume's `storage`: its class, the class's profile and the file system's share.

    populated: whether its claims are filled by populators, and by which strategy clones are.
    """

    storage_class: str
    property_sets: Sequence[Json]
    overhead: Decimal
    populated: bool = False
    strategy: str = "copy"


def clone_source(dv: Json) -> Key | None:
    """Return (namespace, name) of the claim that a DataVolume clones, None when it clones none."""
    source = dig(dv, "spec", "source", "pvc")
    if not source:
        return None
    return source.get("namespace") or dv["metadata"]["namespace"], source["name"]


def snapshot_source(dv: Json) -> Key | None:
    """Return (namespace, name) of the VolumeSnapshot that a DataVolume clones, None when it clones none."""
    source = dig(dv, "spec", "source", "snapshot")
    if not source:
        return None
    return source.get("namespace") or dv["metadata"]["namespace"], source["name"]


def source_kind(dv: Json) -> str:
    """Return which source a DataVolume names: "http", "pvc", "upload", ...; "" when it names none."""
    return next((kind for kind, value in (dig(dv, "spec", "source") or {}).items() if value is not None), "")


def default_class(classes: Sequence[Json]) -> str:
    """Return the name of the default storage class (the one for virtual machines first), "" when there is none."""
    for annotation in DEFAULT_CLASS:
        for candidate in classes:
            if names.annotations_of(candidate).get(annotation) == "true":
                return str(candidate["metadata"]["name"])
    return ""


def render(dv: Json, storage: Storage, cloned: Json | None) -> Json:
    """Return the claim of a DataVolume.

    Args:
        dv: its `spec.source` is resolved already.
        cloned: the claim that it clones, which tells the size when the DataVolume does not.

    Raises:
        ClaimNotValid: something is missing that only the user can give.
    """
    meta = dv["metadata"]
    spec = _literal(dv) if dig(dv, "spec", "pvc") else _filled(dv, storage, cloned)
    annotations = _annotations(dv)
    if storage.populated:
        spec["dataSourceRef"] = _populator(dv)
        annotations = _ordered(dv, annotations, storage.strategy)
    labels = {**names.APP, **names.RECOMMENDED_LABELS, **(meta.get("labels") or {})}
    if spec.get("volumeMode", sizes.FILESYSTEM) == sizes.FILESYSTEM:
        labels |= names.NO_FILLING_UP_ALERT
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {**names.annotations_of(dv), **annotations},
            "ownerReferences": [owner_reference(dv, DATA_VOLUME)],
        },
        "spec": spec,
    }


def _populator(dv: Json) -> Json:
    """Return the reference by which a claim asks for its content; what it leads to is in the claim's order."""
    kind = "clone" if clone_source(dv) or snapshot_source(dv) else "import"
    name = f"volume-{kind}-source-{dv['metadata']['uid']}"
    return {"apiGroup": names.GROUP, "kind": names.POPULATED_BY[kind], "name": name}


def _ordered(dv: Json, annotations: dict[str, str], strategy: str) -> dict[str, str]:
    """Return the annotations of a populated claim: what its prime gets is an order on it, and none of its own."""
    shared = (names.POD_RESTARTS, names.CONTENT_TYPE, names.PREALLOCATION, names.CREATED_FOR)
    own = {key: annotations[key] for key in shared}
    source, snapshot = clone_source(dv), snapshot_source(dv)
    order: Json = {"annotations": annotations}
    if snapshot is not None:
        order = {"snapshot": "/".join(snapshot)}
    elif source is not None and strategy != "copy":
        order = {"claim": "/".join(source), "strategy": strategy}
    if source is not None or snapshot is not None:
        own[names.CLONE_TYPE] = strategy if snapshot is None else "snapshot"
    return {**own, names.ORDER: json.dumps(order, sort_keys=True)}


def _literal(dv: Json) -> Json:
    spec: Json = dict(dv["spec"]["pvc"])
    return spec


def _filled(dv: Json, storage: Storage, cloned: Json | None) -> Json:
    wanted: Json = dict(dv["spec"]["storage"])
    modes, volume_mode = wanted.get("accessModes"), wanted.get("volumeMode")
    fitting = [s for s in storage.property_sets if volume_mode in (None, s.get("volumeMode"))]
    if not modes:
        if not fitting:
            raise ClaimNotValid(
                f"DataVolume.storage spec is missing accessMode and cannot get access mode from StorageProfile "
                f"{storage.storage_class}"
            )
        modes = fitting[0]["accessModes"]
    if volume_mode is None:
        matching = [s for s in storage.property_sets if set(modes) <= set(s["accessModes"])]
        volume_mode = matching[0]["volumeMode"] if matching else sizes.FILESYSTEM
    requested = _requested(wanted, cloned, storage.overhead, volume_mode)
    spec: Json = {
        "accessModes": list(modes),
        "volumeMode": volume_mode,
        "resources": {"requests": {"storage": str(requested)}},
    }
    if storage.storage_class:
        spec["storageClassName"] = storage.storage_class
    return spec


def _requested(wanted: Json, cloned: Json | None, overhead: Decimal, volume_mode: str) -> int:
    size = dig(wanted, "resources", "requests", "storage")
    if size is None and cloned is not None:
        return sizes.requested_bytes(cloned)
    if size is None:
        raise ClaimNotValid("PVC spec is not valid - missing storage size")
    disk = int(quantity(size))
    return sizes.claim_bytes(disk, overhead) if volume_mode == sizes.FILESYSTEM else disk


def _annotations(dv: Json) -> dict[str, str]:
    meta, spec = dv["metadata"], dv["spec"]
    common = {
        names.POD_RESTARTS: "0",
        names.CONTENT_TYPE: spec.get("contentType") or "kubevirt",
        names.PREALLOCATION: str(bool(spec.get("preallocation"))).lower(),
        names.CREATED_FOR: meta["uid"],
    }
    source = clone_source(dv)
    if source is not None:
        pod = names.clone_pod_name(meta["name"])
        return {**common, names.CLONE_REQUEST: "/".join(source), names.CLONE_TYPE: "copy", names.UPLOAD_POD: pod}
    common[names.IMPORT_POD] = names.importer_pod_name(meta["name"])
    http = dig(spec, "source", "http")
    return {**common, names.SOURCE: "none"} if http is None else {**common, **_http(http)}


def _http(http: dict[str, Any]) -> dict[str, str]:
    answer = {names.SOURCE: "http", names.ENDPOINT: http["url"]}
    fields = {"checksum": names.CHECKSUM, "secretRef": names.SECRET, "certConfigMap": names.CERT_CONFIG_MAP}
    answer |= {annotation: http[key] for key, annotation in fields.items() if http.get(key)}
    if http.get("insecureSkipVerify"):
        answer[names.INSECURE] = "true"
    for key, annotation in (
        ("extraHeaders", names.EXTRA_HEADERS),
        ("secretExtraHeaders", names.SECRET_EXTRA_HEADERS),
    ):
        answer |= {f"{annotation}.{number}": value for number, value in enumerate(http.get(key) or [])}
    return answer
