"""What objects wait for, in the words of their own status."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.rollout import waits_for

Json = dict[str, Any]


def obj(api: str, kind: str, spec: Json, status: Json) -> Json:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "a", "generation": 2}, "spec": spec, "status": status}


def conditions(kind: str, status: str, **more: str) -> Json:
    return {"conditions": [{"type": kind, "status": status, **more}]}


SEEN = {"observedGeneration": 2}
ALL = {**SEEN, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}
TWO = {"replicas": 2}
SET = {**SEEN, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
LATE = conditions("Progressing", "False", reason="ProgressDeadlineExceeded", message="it has timed out")
CASES: list[tuple[str, str, Json, Json, str]] = [
    ("apps/v1", "Deployment", TWO, ALL, ""),
    ("apps/v1", "Deployment", {}, {**SEEN, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}, ""),
    ("apps/v1", "Deployment", {"replicas": 0}, SEEN, ""),
    ("apps/v1", "Deployment", TWO, {**ALL, "observedGeneration": 1}, "has not seen it yet"),
    ("apps/v1", "Deployment", TWO, {}, "has not seen it yet"),
    ("apps/v1", "Deployment", TWO, {**ALL, "availableReplicas": 1}, "1 of 2 are available"),
    ("apps/v1", "Deployment", TWO, {**ALL, "replicas": 3}, "1 old replicas are still there"),
    ("apps/v1", "Deployment", TWO, {**SEEN, **LATE}, "it has timed out"),
    ("apps/v1", "DaemonSet", {}, SET, ""),
    ("apps/v1", "DaemonSet", {}, {**SET, "numberAvailable": 1}, "1 of 3 are available"),
    ("apps/v1", "DaemonSet", ON_DELETE, {**SET, "updatedNumberScheduled": 1}, ""),
    ("apps/v1", "StatefulSet", TWO, ALL, ""),
    ("apps/v1", "StatefulSet", TWO, {**ALL, "readyReplicas": 1}, "1 of 2 are ready"),
    ("apps/v1", "StatefulSet", TWO, {**ALL, "updatedReplicas": 1}, "1 of 2 are updated"),
    (
        *("apps/v1", "StatefulSet"),
        {**TWO, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
        {**ALL, "updatedReplicas": 1},
        "",
    ),
    ("batch/v1", "Job", {}, conditions("Complete", "True"), ""),
    ("batch/v1", "Job", {}, {}, "it has not completed"),
    ("batch/v1", "Job", {"suspend": True}, {}, ""),
    ("batch/v1", "Job", {}, conditions("Failed", "True", message="too often"), "it failed: too often"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, conditions("Established", "True"), ""),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, {}, "not established"),
    ("apiregistration.k8s.io/v1", "APIService", {}, conditions("Available", "True"), ""),
    (
        "apiregistration.k8s.io/v1",
        "APIService",
        {},
        conditions("Available", "False", message="no"),
        "not available: no",
    ),
    ("v1", "ConfigMap", {}, {}, ""),
    ("shop.example/v1", "Deployment", TWO, {}, ""),
]


@pytest.mark.parametrize(("api", "kind", "spec", "status", "words"), CASES)
def test_what_an_object_waits_for(api: str, kind: str, spec: Json, status: Json, words: str) -> None:
    found = waits_for(obj(api, kind, spec, status))
    assert words in found
    assert bool(words) == bool(found)


def test_what_is_deleted_has_not_come_to_be() -> None:
    body = obj("v1", "Namespace", {}, {})
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert waits_for(body) == "it is being deleted"
