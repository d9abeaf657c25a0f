"""Pods on the host's Node that belong to nobody there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from harness.embedded.cdi import claims
from harness.embedded.context import Context
from harness.embedded.node.garbage_collection import ForeignPods
from harness.embedded.vmi.launcher import LAUNCHER
from harness.kube.client import Cluster
from harness.kube.events import Events
from harness.kube.informer import Informers, key_of
from harness.kube.resources import POD

Json = dict[str, Any]
HERE = "vmatrix-a"


class Api:
    """Records what is deleted, and how."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int | None]] = []

    def delete(self, _: object, name: str, namespace: str, grace: int | None = None) -> None:
        self.deleted.append((name, grace))


def pod(*, node: str = HERE, labels: Json | None = None, deleted: bool = True, container: str = "main") -> Json:
    meta: Json = {"name": "coredns", "namespace": "kube-system", "resourceVersion": "1", "labels": labels or {}}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": container}]}}


def deletions(found: Json) -> list[tuple[str, int | None]]:
    api = Api()
    cluster = cast(Cluster, api)
    informers = Informers(cluster)
    strangers = ForeignPods(Context(cluster, informers, cast(Events, None), Path(), 0, HERE))
    informers.of(POD).observe(found)
    strangers.reconcile(key_of(found))
    return api.deleted


def test_a_deleted_one_of_cdis_that_fills_no_claim_goes_too() -> None:
    found = pod(labels={**claims.APP, claims.ROLE: claims.IMPORTER}, container="size-detection-volume")
    assert deletions(found) == [("coredns", 0)]


def test_a_deleted_one_goes_without_its_grace() -> None:
    assert deletions(pod()) == [("coredns", 0)]


@pytest.mark.parametrize(
    "found",
    [
        pod(deleted=False),
        pod(node="vmatrix-a-control-plane"),
        pod(labels=LAUNCHER),
        pod(labels={**claims.APP, claims.ROLE: claims.IMPORTER}, container=claims.IMPORTER),
    ],
    ids=["nobody deletes it", "another node's", "a launcher", "CDI's"],
)
def test_others_stay(found: Json) -> None:
    assert deletions(found) == []
