"""The webhooks of DataVolume: what is recorded, and updates, foreign claims and clones across namespaces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.embedded.admission.datavolume import Neighbours, authorize_datavolume, cdi_refusal, validate_datavolume
from harness.kube.admission import StatusCause, review
from harness.kube.client import Json
from tests.unit.embedded.admission.recorded import cases, hold_to

ALONE = Neighbours(
    data_source=lambda _ns, _name: None, claim=lambda _ns, _name: None, may_clone=lambda _user, _ns: False
)
BLANK: Json = {"blank": {}}


def asked(source: Json, *, operation: str = "CREATE", size: str | None = "1Gi") -> Json:
    """Return an admission request for a DataVolume `mine` in namespace `ns`."""
    storage = {} if size is None else {"resources": {"requests": {"storage": size}}}
    obj = {"metadata": {"name": "mine", "namespace": "ns"}, "spec": {"source": source, "storage": storage}}
    return {"operation": operation, "namespace": "ns", "object": obj, "userInfo": {"username": "job"}}


def pvc(namespace: str) -> Json:
    """Return a clone's source."""
    return {"pvc": {"namespace": namespace, "name": "golden"}}


def test_the_spec_stays() -> None:
    request = asked(BLANK, operation="UPDATE")
    assert validate_datavolume({**request, "oldObject": request["object"]}, ALONE).allowed

    verdict = validate_datavolume({**request, "oldObject": asked(pvc("ns"))["object"]}, ALONE)

    assert (verdict.code, verdict.message) == (422, " Cannot update DataVolume Spec")
    assert verdict.causes[0].as_json() == {
        "reason": "FieldValueDuplicate",
        "message": "Cannot update DataVolume Spec",
        "field": "DataVolume.Spec",
    }


@pytest.mark.parametrize(
    ("claim", "allowed"),
    [
        (None, True),
        ({"metadata": {}}, False),
        ({"metadata": {"annotations": {"cdi.kubevirt.io/storage.populatedFor": "mine"}}}, True),
        ({"metadata": {"ownerReferences": [{"kind": "DataVolume", "name": "mine", "controller": True}]}}, True),
        ({"metadata": {"ownerReferences": [{"kind": "DataVolume", "name": "other", "controller": True}]}}, False),
    ],
    ids=["none", "foreign", "populated-for-it", "its-own", "anothers"],
)
def test_a_foreign_claim_of_that_name_is_in_the_way(claim: Json | None, allowed: bool) -> None:
    verdict = validate_datavolume(asked(BLANK), replace(ALONE, claim=lambda _ns, _name: claim))

    assert verdict.allowed == allowed
    assert allowed or verdict.message == " Destination PVC ns/mine already exists"


def test_a_clone_from_elsewhere_needs_permission_there() -> None:
    verdict = authorize_datavolume(asked(pvc("images")), ALONE)

    assert verdict.message == " User job has insufficient permissions in clone source namespace images"
    assert authorize_datavolume(asked(pvc("ns")), ALONE).allowed
    permitted = replace(ALONE, may_clone=lambda user, namespace: (user["username"], namespace) == ("job", "images"))
    assert authorize_datavolume(asked(pvc("images")), permitted).allowed


def test_a_data_sources_claim_is_where_the_clone_comes_from() -> None:
    request = asked(BLANK)
    request["object"]["spec"].pop("source")
    request["object"]["spec"]["sourceRef"] = {"kind": "DataSource", "name": "debian", "namespace": "images"}
    known = replace(ALONE, data_source=lambda _ns, _name: {"spec": {"source": pvc("images")}})

    assert authorize_datavolume(request, ALONE).code == 400
    assert not authorize_datavolume(request, known).allowed
    assert authorize_datavolume(request, replace(known, may_clone=lambda _user, _ns: True)).allowed


def test_a_clone_may_take_its_sources_size() -> None:
    assert validate_datavolume(asked(pvc("ns"), size=None), ALONE).allowed
    assert not validate_datavolume(asked(BLANK, size=None), ALONE).allowed


CASES = cases("dv-admission.json")
PERMITTED = replace(ALONE, may_clone=lambda _user, _ns: True)
CHAIN = (
    ("datavolume-mutate.cdi.kubevirt.io", lambda request: authorize_datavolume(request, PERMITTED)),
    ("datavolume-validate.cdi.kubevirt.io", lambda request: validate_datavolume(request, PERMITTED)),
)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_request_gets_the_recorded_answer(case: Json) -> None:
    hold_to(case, CHAIN)


def test_every_recorded_case_is_asked() -> None:
    assert len(CASES) == 30


def test_a_refusal_of_cdi_joins_its_causes_and_has_no_reason() -> None:
    answer = review({"uid": "1"}, cdi_refusal([StatusCause("one", "spec.a"), StatusCause("two", "spec.b")]))["response"]

    assert answer["status"]["message"] == " one two"
    assert "reason" not in answer["status"]
    assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == ["spec.a", "spec.b"]
