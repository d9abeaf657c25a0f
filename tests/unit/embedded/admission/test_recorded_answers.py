"""Every recorded request gets the recorded answer from the rules alone (what the API server adds is not repeated here).

The contract tests replay the same requests through a real API server.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.embedded.admission.datavolume import Neighbours, authorize_datavolume, validate_datavolume
from harness.embedded.admission.verdict import Json, Verdict
from harness.embedded.admission.vm import default_vm, validate_vm
from harness.paths import project_dir

RECORDED = project_dir() / "tests" / "contract" / "recorded"
ALONE = Neighbours(
    data_source=lambda _ns, _name: None, claim=lambda _ns, _name: None, may_clone=lambda _user, _ns: True
)
CHAINS: dict[str, list[tuple[str, Callable[[Json], Verdict]]]] = {
    "vm-admission.json": [
        ("virtualmachines-mutator.kubevirt.io", default_vm),
        ("virtualmachine-validator.kubevirt.io", validate_vm),
    ],
    "dv-admission.json": [
        ("datavolume-mutate.cdi.kubevirt.io", lambda request: authorize_datavolume(request, ALONE)),
        ("datavolume-validate.cdi.kubevirt.io", lambda request: validate_datavolume(request, ALONE)),
    ],
}
# Answers of the API server itself, by the schema: the webhooks let these pass.
BY_THE_SCHEMA = {"bad-content-type", "name-254-characters"}


def _cases() -> list[Any]:
    return [
        pytest.param(case, chain, id=f"{file[:2]}-{case['case']}")
        for file, chain in CHAINS.items()
        for case in json.loads((RECORDED / file).read_text(encoding="utf-8"))["cases"]
    ]


def _ask(obj: Json, chain: list[tuple[str, Callable[[Json], Verdict]]]) -> tuple[str, Verdict]:
    """Send an object through a chain of webhooks; return who answered last, and what."""
    obj = copy.deepcopy(obj)
    for name, judge in chain:
        request = {"operation": "CREATE", "namespace": "cell-a", "object": obj, "userInfo": {"username": "someone"}}
        verdict = judge(request)
        if not verdict.allowed:
            return name, verdict
        obj.update(verdict.changed or {})
    return "", Verdict(allowed=True)


@pytest.mark.parametrize(("case", "chain"), _cases())
def test_a_recorded_request_gets_the_recorded_answer(
    case: Json, chain: list[tuple[str, Callable[[Json], Verdict]]]
) -> None:
    name, verdict = _ask(case["request"], chain)

    if case["code"] == 201 or case["case"] in BY_THE_SCHEMA:
        assert verdict.allowed, verdict.message
        return
    assert not verdict.allowed
    assert (verdict.code, verdict.reason or None) == (case["code"], case["reason"])
    assert f'admission webhook "{name}" denied the request: {verdict.message}' == case["message"]
    assert [cause.as_json() for cause in verdict.causes] == (case["causes"] or [])


def test_every_recorded_case_is_asked() -> None:
    assert len(_cases()) == 43 + 30
