"""Add-ons that are missing, not ready or not wanted are found."""

from __future__ import annotations

import pytest

from harness.validate.judge.addons import unavailable_deployments, unready_daemon_sets
from harness.validate.variables import ADD_ONS
from tests.unit.validate import guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.views import (
    VERSIONS,
    Judge,
    finds,
    named,
    passes_a_well_guest_only,
    view,
    with_add_ons,
    without,
)


def daemon_set(change: Change) -> Change:
    return lambda raw: change(named(raw["daemon_sets"], "kube-flannel"))


def coredns(change: Change) -> Change:
    return lambda raw: change(named(raw["deployments"], "coredns"))


def scaled_down(deployment: Json) -> None:
    """Let there be one, as the Deployment itself asks for: kubeadm's has two."""
    deployment["spec"]["replicas"] = 1
    deployment["status"].update(replicas=1, updatedReplicas=1, availableReplicas=1)


JUDGES: tuple[Judge, ...] = (
    unavailable_deployments,
    unready_daemon_sets,
)
FAULTS: list[tuple[Judge, Change]] = [
    (unavailable_deployments, without("deployments", "coredns")),
    (unavailable_deployments, coredns(lambda d: d["status"].update(availableReplicas=1))),
    (unavailable_deployments, coredns(lambda d: d["spec"].update(replicas=0))),
    (unavailable_deployments, coredns(scaled_down)),
    (unavailable_deployments, coredns(lambda d: d["metadata"].update(generation=9))),
    (unready_daemon_sets, without("daemon_sets", "kube-proxy")),
    (unready_daemon_sets, without("daemon_sets", "kube-flannel")),
    (unready_daemon_sets, daemon_set(lambda d: d["status"].update(numberReady=1))),
    (unready_daemon_sets, daemon_set(lambda d: d["status"].update(desiredNumberScheduled=1))),
    (unready_daemon_sets, daemon_set(lambda d: d["status"].update(updatedNumberScheduled=0))),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_guest_with_add_ons_passes_where_they_are_wanted(judge: Judge) -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    assert judge(view(with_add_ons), wanted) == []


def test_an_add_on_is_found_where_it_is_missing_or_not_wanted() -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    kinds = (("Deployment", "deployment", unavailable_deployments), ("DaemonSet", "daemon_set", unready_daemon_sets))
    for kind, attribute, judge in kinds:
        places = {f"{kind} {'/'.join(at)}" for one in ADD_ONS.values() if (at := getattr(one, attribute)) is not None}
        assert {found.where for found in judge(view(), wanted)} == places
        unwanted = judge(view(with_add_ons), guests.expected())
        assert {found.where for found in unwanted} == places
        assert {found.seen for found in unwanted} == {"it exists"}
