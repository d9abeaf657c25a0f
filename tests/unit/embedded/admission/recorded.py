"""Recorded admission requests, and the answers that the rules alone give (the API server's own are not repeated here).

The contract tests replay the same requests through a real API server.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.kube.admission import AdmissionResponse
from harness.kube.client import Json
from harness.paths import project_dir

RECORDED = project_dir() / "tests" / "contract" / "recorded"
# Answers of the API server itself, by the schema: the webhooks let these pass.
BY_THE_SCHEMA = {"bad-content-type", "name-254-characters"}
Chain = Sequence[tuple[str, Callable[[Json], AdmissionResponse]]]


def cases(file: str) -> list[Any]:
    """Return the cases of a recording, named."""
    found = json.loads((RECORDED / file).read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["case"]) for case in found]


def hold_to(case: Json, chain: Chain) -> None:
    """Assert that a chain of webhooks answers a request as recorded."""
    name, verdict = _ask(case["request"], chain)

    if case["code"] == 201 or case["case"] in BY_THE_SCHEMA:
        assert verdict.allowed, verdict.message
        return
    assert not verdict.allowed
    assert (verdict.code, verdict.reason or None) == (case["code"], case["reason"])
    assert f'admission webhook "{name}" denied the request: {verdict.message}' == case["message"]
    assert [cause.as_json() for cause in verdict.causes] == (case["causes"] or [])


def _ask(obj: Json, chain: Chain) -> tuple[str, AdmissionResponse]:
    """Send an object through a chain of webhooks; return who answered last, and what."""
    obj = copy.deepcopy(obj)
    for name, judge in chain:
        request = {"operation": "CREATE", "namespace": "cell-a", "object": obj, "userInfo": {"username": "someone"}}
        verdict = judge(request)
        if not verdict.allowed:
            return name, verdict
        obj.update(verdict.changed or {})
    return "", AdmissionResponse(allowed=True)
