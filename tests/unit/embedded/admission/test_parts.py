"""Quantities and names as Kubernetes reads them, reviews as it wants them, and the definitions that are carried."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pytest

from harness.embedded.admission.configuration import WEBHOOKS, configurations
from harness.embedded.admission.names import is_mac, label_problems, quantity, subdomain_problems
from harness.embedded.admission.verdict import ALLOWED, Cause, cdi_refusal, change, review
from harness.embedded.crds import crds, schema
from harness.embedded.install import holds


@pytest.mark.parametrize(
    ("text", "value"),
    [("2Gi", 2 * 2**30), ("500m", Decimal("0.5")), (4, 4), ("1e3", 1000), ("0", 0), (None, 0), ("many", 0), ("-1", -1)],
)
def test_a_quantity_is_read(text: object, value: Decimal | int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    ("address", "fine"),
    [
        ("02:00:00:00:00:01", True),
        ("02-00-00-00-00-01", True),
        ("0200.0000.0001", True),
        ("zz:00", False),
        ("02:00", False),
    ],
)
def test_a_mac_address_is_known(address: str, fine: bool) -> None:
    assert is_mac(address) == fine


def test_names_are_judged_as_kubernetes_does() -> None:
    assert label_problems("cp-0") == subdomain_problems("cp-0.lab") == []
    assert label_problems("cp-0.lab")
    assert label_problems("a" * 64)[0] == "must be no more than 63 characters"
    assert subdomain_problems("Bad_Host")


def test_a_review_carries_the_patch() -> None:
    request = {"uid": "1", "object": {"spec": {"a": 1}, "metadata": {}}}

    answer = review(request, change(request, {"spec": {"a": 2}, "metadata": {}}))["response"]

    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("1", True, "JSONPatch")
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/spec", "value": {"a": 2}}]
    assert review(request, ALLOWED)["response"] == {"uid": "1", "allowed": True}


def test_a_review_carries_the_refusal() -> None:
    answer = review({"uid": "1"}, cdi_refusal([Cause("one", "spec.a"), Cause("two", "spec.b")]))["response"]

    assert answer["status"]["message"] == " one two"
    assert "reason" not in answer["status"]
    assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == ["spec.a", "spec.b"]


def test_the_webhooks_are_configured_by_their_real_names() -> None:
    made = configurations(url="https://10.0.0.1:8443", ca_bundle=b"PEM", trusted="kubevirt")

    entries = {entry["name"]: entry for body in made for entry in body["webhooks"]}
    assert set(entries) == {webhook.name for webhook in WEBHOOKS}
    assert {body["metadata"]["name"] for body in made} == {
        "virt-api-mutator",
        "virt-api-validator",
        "cdi-api-datavolume-mutate",
        "cdi-api-datavolume-validate",
    }
    assert all(entry["failurePolicy"] == "Fail" for entry in entries.values())
    mutator = entries["virtualmachines-mutator.kubevirt.io"]
    assert mutator["clientConfig"]["url"] == "https://10.0.0.1:8443/virtualmachines-mutate"


def test_the_definitions_are_carried_whole() -> None:
    names = {definition["metadata"]["name"] for definition in crds()}
    assert names == {
        *(f"{plural}.kubevirt.io" for plural in ("kubevirts", "virtualmachines", "virtualmachineinstances")),
        *(f"{plural}.cdi.kubevirt.io" for plural in ("cdiconfigs", "cdis", "datasources", "datavolumes")),
        "storageprofiles.cdi.kubevirt.io",
    }
    assert (
        "checksum"
        in schema("datavolumes", "cdi.kubevirt.io")["properties"]["spec"]["properties"]["source"]["properties"]["http"][
            "properties"
        ]
    )


@pytest.mark.parametrize(
    ("found", "wanted", "answer"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": 1}, False),
        ({"l": [{"x": 1, "y": 2}]}, {"l": [{"x": 1}]}, True),
        ({"l": [1, 2]}, {"l": [1]}, False),
        ({"lastTransitionTime": "then"}, {"lastTransitionTime": "now"}, True),
    ],
)
def test_an_object_that_holds_all_that_is_wanted_is_left_alone(found: object, wanted: object, answer: bool) -> None:
    assert holds(found, wanted) == answer
