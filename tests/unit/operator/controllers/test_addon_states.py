"""What is told of an add-on with manifests."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.applyset_member import ApplySetLook
from harness.operator.api.addons import AddonStatus, ClusterAddon
from harness.operator.controllers.addon_states import WantedAddon, needed, source_digest, unknown

ADDON = ClusterAddon.model_validate({"name": "shop", "manifests": {"configMap": "shop"}})
OTHER = ClusterAddon.model_validate({"name": "shop", "manifests": {"configMap": "other"}})
OBJECT: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "web"}}
BEFORE = AddonStatus(name="shop", source="s", digest="d", objects=4, ready=True, reason="Ready")


@pytest.mark.parametrize(
    ("look", "ready", "reason", "words"),
    [
        (ApplySetLook(), True, "Ready", ""),
        (ApplySetLook(changed=["a"]), True, "Ready", ""),
        (ApplySetLook(waits=["a: b", "c: d"]), False, "NotReady", "a: b; c: d"),
        (ApplySetLook(left=["a"], waits=["b"]), False, "Pruning", "a"),
        (ApplySetLook(failures=["f"], left=["a"], waits=["b"]), False, "NotApplied", "f"),
        (ApplySetLook(failures=["f" * 2000]), False, "NotApplied", "f" * 1021 + "..."),
    ],
)
def test_the_worst_is_told(look: ApplySetLook, ready: bool, reason: str, words: str) -> None:
    told = WantedAddon("shop", ADDON, [OBJECT]).state(look, BEFORE)
    assert told is not None
    assert (told.ready, told.reason, told.message) == (ready, reason, words)
    assert (told.digest == "d") == (reason == "NotApplied")


def test_what_was_removed_is_told_until_nothing_is_left() -> None:
    gone = WantedAddon("shop")
    assert gone.state(ApplySetLook(), BEFORE) is None
    told = gone.state(ApplySetLook(left=["Service web/a"]), BEFORE)
    assert told is not None
    assert (told.reason, told.source) == ("Pruning", None)


def test_manifests_that_cannot_be_read_keep_what_was_applied() -> None:
    told = WantedAddon("shop", ADDON, None, "no such file").unread(BEFORE)
    assert (told.digest, told.objects, told.ready, told.reason) == ("d", 4, False, "NoManifests")
    assert told.source == source_digest(ADDON) != source_digest(OTHER)


def test_a_namespace_is_needed_by_what_lies_in_it_and_by_what_nobody_knows() -> None:
    one = WantedAddon("shop", ADDON, [OBJECT])
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}}
    assert needed([one], "web")
    assert needed([WantedAddon("b", ADDON, [space])], "own")
    assert needed([WantedAddon("b", ADDON, [{**OBJECT, "metadata": {"name": "a"}}])], "default")
    assert needed([WantedAddon("b", ADDON, None)], "any")
    assert not needed([one, WantedAddon("b")], "own")


def test_a_guest_that_does_not_answer_says_nothing_of_what_it_had() -> None:
    first, second = unknown({"shop": BEFORE}, ["shop", "new"], "no route")
    assert (first.digest, first.ready, first.reason, first.message) == ("d", None, "Unreachable", "no route")
    assert (second.name, second.ready) == ("new", None)
