"""The API answers each recorded request as the real one did: code, reason, message, causes, warnings, stored spec."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from harness.kube.client import Answer, Cluster
from harness.kube.resources import DATA_VOLUME, VM, Resource
from tests.contract.streams import RECORDED
from tests.contract.transitions import Json

NAMESPACE = "cell-a"  # of all recorded requests
FILES: dict[str, Resource] = {"vm-admission.json": VM, "dv-admission.json": DATA_VOLUME}


def _cases() -> list[Any]:
    return [
        pytest.param(case, resource, id=f"{resource.plural}-{case['case']}")
        for file, resource in FILES.items()
        for case in json.loads((RECORDED / file).read_text(encoding="utf-8"))["cases"]
    ]


def _in(namespace: str, case: Json) -> Json:
    moved: Json = json.loads(json.dumps(case).replace(f'"{NAMESPACE}"', f'"{namespace}"'))
    if "message" in moved:
        text = json.dumps([moved["message"], moved["causes"]]).replace(NAMESPACE, namespace)
        moved["message"], moved["causes"] = json.loads(text)
    return moved


def _without_identity(spec: Json) -> Json:
    """Drop the firmware's uuid and serial: they are drawn for each machine."""
    spec = copy.deepcopy(spec)
    firmware = spec.get("template", {}).get("spec", {}).get("domain", {}).get("firmware", {})
    drawn = [firmware.pop(name) for name in ("uuid", "serial") if name in firmware]
    assert len(set(drawn)) == len(drawn)
    return spec


def _refusal(answer: Answer) -> Json:
    causes = (answer.body.get("details") or {}).get("causes")
    return {"reason": answer.body.get("reason"), "message": answer.body["message"], "causes": causes}


@pytest.mark.parametrize(("case", "resource"), _cases())
def test_a_recorded_request_gets_the_recorded_answer(
    cluster: Cluster, quiet_namespace: str, case: Json, resource: Resource
) -> None:
    case = _in(quiet_namespace, case)

    answer = cluster.send("POST", resource.path(quiet_namespace), body=case["request"], query={"dryRun": "All"})

    assert answer.code == case["code"], answer.body
    assert ", ".join(answer.warnings) == case.get("warnings", "")
    if answer.code >= 400:
        assert _refusal(answer) == {name: case[name] for name in ("reason", "message", "causes")}
    if "stored_spec" in case:
        assert _without_identity(answer.body["spec"]) == _without_identity(case["stored_spec"])
    if "stored_dataVolumeTemplates" in case:
        assert answer.body["spec"]["dataVolumeTemplates"] == case["stored_dataVolumeTemplates"]
    if "stored_annotations" in case:
        assert answer.body["metadata"].get("annotations") == case["stored_annotations"]


def test_no_recorded_case_is_left_out() -> None:
    assert len(_cases()) == 43 + 30
