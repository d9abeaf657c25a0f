"""Admission reviews as the API server wants them."""

from __future__ import annotations

import base64
import json

from harness.embedded.admission.response import ALLOWED, StatusCause, cdi_refusal, change, review


def test_a_review_carries_the_patch() -> None:
    request = {"uid": "1", "object": {"spec": {"a": 1}, "metadata": {}}}

    answer = review(request, change(request, {"spec": {"a": 2}, "metadata": {}}))["response"]

    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("1", True, "JSONPatch")
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/spec", "value": {"a": 2}}]
    assert review(request, ALLOWED)["response"] == {"uid": "1", "allowed": True}


def test_a_review_carries_the_refusal() -> None:
    answer = review({"uid": "1"}, cdi_refusal([StatusCause("one", "spec.a"), StatusCause("two", "spec.b")]))["response"]

    assert answer["status"]["message"] == " one two"
    assert "reason" not in answer["status"]
    assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == ["spec.a", "spec.b"]
