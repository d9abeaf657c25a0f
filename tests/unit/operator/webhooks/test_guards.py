"""Who wished and who approved, as the defaulting webhook writes it down."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.webhooks.guards import default_deployment
from tests.unit.operator.api.objects import deployment

Json = dict[str, Any]
GROUP = "cluster.vmatrix.dev"


def written(old: Json | None, user: str = "alice", annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    """Return the annotations of the group after a review; None where nothing is changed."""
    new = deployment(**spec)
    if annotations:
        new["metadata"]["annotations"] = {f"{GROUP}/{name}": value for name, value in annotations.items()}
    request = {"object": new, "oldObject": old, "userInfo": {"username": user}}
    changed = default_deployment(request).changed
    if changed is None:
        return None
    assert list(changed) == ["metadata"], "no field of the spec is filled in"
    return {name.removeprefix(f"{GROUP}/"): value for name, value in changed["metadata"]["annotations"].items()}


def stored(**annotations: str) -> Json:
    made = deployment()
    made["metadata"]["annotations"] = {f"{GROUP}/{name.replace('_', '-')}": said for name, said in annotations.items()}
    return made


def test_who_creates_an_object_is_who_wishes() -> None:
    assert written(None) == {"requested-by": "alice"}


def test_who_changes_the_spec_is_who_wishes_now() -> None:
    assert written(stored(requested_by="bob"), paused=True) == {"requested-by": "alice"}


def test_an_edit_of_something_else_leaves_who_wished() -> None:
    kept = {"requested-by": "bob"}
    assert written(stored(requested_by="bob"), annotations=kept) is None
    assert written(stored(requested_by="bob")) == kept, "it cannot be taken off"


@pytest.mark.parametrize("name", ["requested-by", "approved-by"])
def test_nobody_writes_another_name(name: str) -> None:
    found = written(stored(requested_by="bob"), annotations={name: "carol"})
    assert found == {"requested-by": "bob"}


def test_an_approval_has_its_giver_until_another_is_given() -> None:
    approved = {"approve": "2", "requested-by": "bob"}
    given = written(stored(requested_by="bob"), annotations=approved)
    assert given == {**approved, "approved-by": "alice"}
    before = stored(requested_by="bob", approve="2", approved_by="alice")
    assert written(before, "carol", annotations=given) is None
    again = written(before, "carol", annotations={**approved, "approve": "3"})
    assert again["approved-by"] == "carol"


def test_an_empty_confirmation_is_none() -> None:
    assert written(None, annotations={"remove-sets": ""}) == {"remove-sets": "", "requested-by": "alice"}


def test_what_is_being_deleted_is_left_alone() -> None:
    new = deployment()
    new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    request = {"object": new, "oldObject": None, "userInfo": {"username": "alice"}}
    assert default_deployment(request).changed is None
