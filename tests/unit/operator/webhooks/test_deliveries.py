"""What the webhook of Deliveries refuses, whom it asks about, and who is written down as author."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.webhooks.deliveries import DeliveryJudge
from harness.operator.webhooks.guards import default_delivery
from tests.unit.operator.api.deliveries import BAD, delivery
from tests.unit.operator.controllers.delivered import DeliveryApi

Json = dict[str, Any]
USER = {"username": "alice", "groups": ["dev"]}
AUTHOR = "delivery.vmatrix.dev/requested-by"


def judged(new: Json, old: Json | None = None, *, permitted: bool = True) -> tuple[Any, list[Json]]:
    """Return the verdict, and what was asked about the author."""
    api = DeliveryApi()
    api.permitted = permitted
    verdict = DeliveryJudge(api)({"object": new, "oldObject": old, "userInfo": USER})
    return verdict, [one["resourceAttributes"] for one in api.reviewed]


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_refused_at_its_field(case: str) -> None:
    obj, field, words = BAD[case]
    verdict, _ = judged(obj)
    assert not verdict.allowed
    assert verdict.code == 422
    assert field in {cause.field for cause in verdict.causes}
    assert words in verdict.message


# Whose right is asked for, by a name: the Delivery, what is asked.
REVIEWS: dict[str, tuple[Json, list[tuple[str, str, str, str]]]] = {
    "at home": (delivery(), [("create", "deployments", "team", ""), ("create", "services", "team", "")]),
    "another namespace": (
        delivery(deploy={"namespace": "web"}),
        [("create", "deployments", "web", ""), ("create", "services", "web", "")],
    ),
    "an Ingress": (
        delivery(deploy={"ingress": {"host": "shop.example"}}),
        [("create", kind, "team", "") for kind in ("deployments", "services", "ingresses")],
    ),
    "no Service": (delivery(deploy={"service": {"type": "None"}}), [("create", "deployments", "team", "")]),
    "a guest": (delivery(deploy={"cluster": "guest"}), [("deliver", "clusters", "team", "guest")]),
    "a pull Secret": (
        delivery(deploy={"cluster": "guest", "pullSecretRef": {"name": "pull"}}),
        [("deliver", "clusters", "team", "guest"), ("get", "secrets", "team", "pull")],
    ),
    "Secrets": (
        delivery(
            source={
                "secretRef": {"name": "git"},
                "webhook": {"provider": "GitHub", "secretRef": {"name": "hook", "key": "token"}},
            },
            build={"pushSecretRef": {"name": "push"}, "signingSecretRef": {"name": "sign"}},
        ),
        [
            ("create", "deployments", "team", ""),
            ("create", "services", "team", ""),
            *(("get", "secrets", "team", name) for name in ("git", "hook", "push", "sign")),
        ],
    ),
}


@pytest.mark.parametrize("case", REVIEWS)
def test_the_author_is_asked_about(case: str) -> None:
    obj, wanted = REVIEWS[case]
    verdict, asked = judged(obj)
    assert verdict.allowed
    assert [(one["verb"], one["resource"], one["namespace"], one.get("name", "")) for one in asked] == wanted


@pytest.mark.parametrize("case", REVIEWS)
def test_an_author_without_the_right_is_told_which_verb_is_missing(case: str) -> None:
    obj, wanted = REVIEWS[case]
    verdict, _ = judged(obj, permitted=False)
    assert not verdict.allowed
    assert verdict.code == 403
    assert f'User "alice" cannot {wanted[0][0]} it in the namespace "{wanted[0][2]}"' in verdict.message


def test_an_edit_is_asked_about_as_far_as_it_shows_something_to_somebody_else() -> None:
    with_secret = delivery(source={"secretRef": {"name": "git"}})
    _, asked = judged(delivery(source={"secretRef": {"name": "git"}, "pollSeconds": 5}), with_secret)
    assert [one["resource"] for one in asked] == ["deployments", "services"], "its Secret was shown there before"
    _, asked = judged(delivery(source={"secretRef": {"name": "git"}, "git": "https://evil.example/x"}), with_secret)
    assert [one["resource"] for one in asked] == ["deployments", "services", "secrets"]


def test_what_leaves_the_spec_as_it_is_is_not_judged() -> None:
    old = delivery()
    assert judged({**old, "status": {}}, old, permitted=False)[0].allowed
    gone = delivery(paused=True)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judged(gone, old, permitted=False)[0].allowed


def test_a_mistake_of_before_does_not_stop_another_edit() -> None:
    bad = delivery(source={"git": "file:///x"})
    assert judged({**bad, "spec": {**bad["spec"], "paused": True}}, bad)[0].allowed
    assert not judged(delivery(source={"git": "file:///x", "branch": "a", "tag": "b"}), bad)[0].allowed


def test_the_image_cannot_change_after_the_first_build() -> None:
    built = {**delivery(), "status": {"repository": delivery()["spec"]["build"]["image"]}}
    moved = {**delivery(build={"image": "registry.example/other"}), "status": built["status"]}
    verdict, _ = judged(moved, built)
    assert "cannot change after the first build" in verdict.message


def author(new: Json, old: Json | None = None) -> Any:
    """Return who is written down, None where nothing is changed."""
    changed = default_delivery({"object": new, "oldObject": old, "userInfo": USER}).changed
    return changed["metadata"].get("annotations", {}).get(AUTHOR) if changed is not None else None


def test_the_author_is_who_wrote_the_spec_and_nobody_writes_another_name() -> None:
    old = delivery()
    old["metadata"]["annotations"] = {AUTHOR: "bob"}
    claims = delivery()
    claims["metadata"]["annotations"] = {AUTHOR: "carol"}
    assert author(delivery()) == "alice"
    assert author(delivery(paused=True), old) == "alice"
    assert author(claims) == "alice"
    assert author(claims, old) == "bob"
    assert author(delivery(), old) == "bob", "it cannot be taken off"
    assert author(dict(old), old) is None


def test_a_name_that_is_the_only_annotation_is_taken_off_where_nobody_is_known() -> None:
    claims = delivery()
    claims["metadata"]["annotations"] = {AUTHOR: "carol"}
    changed = default_delivery({"object": claims, "oldObject": delivery(), "userInfo": USER}).changed
    assert changed == {"metadata": delivery()["metadata"]}
