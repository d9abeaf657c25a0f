"""Admission reviews as the API server wants them."""

from __future__ import annotations

import base64
import json

from harness.kube.admission import ALLOWED, AdmissionResponse, StatusCause, change, review


def test_a_review_carries_the_patch() -> None:
    request = {"uid": "1", "object": {"spec": {"a": 1}, "metadata": {}}}

    answer = review(request, change(request, {"spec": {"a": 2}, "metadata": {}}))["response"]

    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("1", True, "JSONPatch")
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/spec", "value": {"a": 2}}]
    assert review(request, ALLOWED)["response"] == {"uid": "1", "allowed": True}


def test_a_review_carries_the_refusal() -> None:
    causes = (StatusCause("one", "spec.a"), StatusCause("two"))
    refused = AdmissionResponse(False, code=422, reason="Invalid", message="one; two", causes=causes)

    status = review({"uid": "1"}, refused)["response"]["status"]

    assert {name: status[name] for name in ("code", "reason", "message")} == {
        "code": 422,
        "reason": "Invalid",
        "message": "one; two",
    }
    assert [cause.get("field") for cause in status["details"]["causes"]] == ["spec.a", None]
