"""The API in memory does what tests rely on as an API server does it."""

from __future__ import annotations

import pytest

from harness.kube.client import ApiFailure, Json
from harness.kube.resources import CONFIG_MAP, NODE, POD, SECRET
from tests.unit.fake_cluster import FakeCluster


def obj(name: str, namespace: str = "ns", **more: Json) -> Json:
    meta = more.pop("metadata", {})
    return {"metadata": {"name": name, "namespace": namespace, **meta}, **more}


def test_an_object_is_made_once() -> None:
    api = FakeCluster()
    assert api.create_if_absent(CONFIG_MAP, obj("a", data={"x": "1"}))
    assert not api.create_if_absent(CONFIG_MAP, obj("a"))
    found = api.ensure(CONFIG_MAP, obj("a"))
    assert (found["kind"], found["data"], found["metadata"]["uid"]) == ("ConfigMap", {"x": "1"}, "uid-a")
    assert api.get(CONFIG_MAP, "b", "ns") is None
    assert api.get(CONFIG_MAP, "a", "others") is None


def test_what_a_secret_is_told_as_text_is_data() -> None:
    assert FakeCluster().create(SECRET, obj("a", stringData={"key": "x"}))["data"] == {"key": "eA=="}


def test_a_patch_changes_what_it_names_and_removes_nulls() -> None:
    api = FakeCluster()
    api.create(POD, obj("a", spec={"x": 1, "y": {"z": 1}}))
    found = api.merge(POD, "a", {"spec": {"x": None, "y": {"w": 2}}}, "ns")
    assert (found["spec"], found["metadata"]["generation"]) == ({"y": {"z": 1, "w": 2}}, 2)
    with pytest.raises(ApiFailure) as missing:
        api.merge(POD, "b", {}, "ns")
    assert missing.value.not_found


def test_a_write_of_an_older_version_is_a_conflict_and_a_status_is_no_spec() -> None:
    api = FakeCluster()
    made = api.create(POD, obj("a", spec={"x": 1}))
    written = api.replace(POD, {**made, "spec": {"x": 2}, "status": {"phase": "Running"}}, subresource="status")
    assert (written["spec"], written["status"], written["metadata"]["generation"]) == (
        {"x": 1},
        {"phase": "Running"},
        1,
    )
    with pytest.raises(ApiFailure) as stale:
        api.replace(POD, {**made, "spec": {"x": 2}})
    assert stale.value.conflict
    assert api.get(POD, "a", "ns") == written


def test_a_list_has_what_the_selectors_ask_for() -> None:
    api = FakeCluster(
        {POD: [obj("a", metadata={"labels": {"x": "1"}}), obj("b"), obj("c", "others")], NODE: [obj("n", "")]}
    )
    assert [one["metadata"]["name"] for one in api.list(POD).items] == ["a", "b", "c"]
    assert [one["metadata"]["name"] for one in api.list(POD, "ns", labels="x=1").items] == ["a"]
    assert [one["metadata"]["name"] for one in api.list(POD, "ns", labels="!x").items] == ["b"]
    assert [one["metadata"]["name"] for one in api.list(POD, labels="x").items] == ["a"]
    assert [one["metadata"]["name"] for one in api.list(POD, fields="metadata.name=c").items] == ["c"]
    assert [one["metadata"]["name"] for one in api.list(NODE).items] == ["n"]


def test_a_finalizer_holds_an_object_until_it_is_taken_off() -> None:
    api = FakeCluster({POD: [obj("a", metadata={"finalizers": ["x"]}), obj("b")]})
    assert api.delete(POD, "a", "ns")
    assert api.delete(POD, "b", "ns")
    assert not api.delete(POD, "b", "ns")
    assert [one["metadata"]["name"] for one in api.all(POD)] == ["a"]
    api.merge(POD, "a", {"metadata": {"finalizers": None}}, "ns")
    assert api.all(POD) == []


def test_a_test_says_what_is_refused_and_sees_what_was_asked() -> None:
    api = FakeCluster()
    api.refusals["POST pods"] = ApiFailure(403, "Forbidden", "no", [], request="POST")
    with pytest.raises(ApiFailure, match="no"):
        api.create(POD, obj("a"))
    api.list(POD, "ns")
    assert api.asked == ["POST pods a", "GET pods"]
