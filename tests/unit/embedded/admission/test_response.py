"""How CDI refuses."""

from __future__ import annotations

from harness.embedded.admission.response import cdi_refusal
from harness.kube.admission import StatusCause, review


def test_a_refusal_of_cdi_joins_its_causes_and_has_no_reason() -> None:
    answer = review({"uid": "1"}, cdi_refusal([StatusCause("one", "spec.a"), StatusCause("two", "spec.b")]))["response"]

    assert answer["status"]["message"] == " one two"
    assert "reason" not in answer["status"]
    assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == ["spec.a", "spec.b"]
