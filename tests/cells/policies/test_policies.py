"""Where the cell enforces network policies, each lets through what it allows, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.curated import AGNHOST
from harness.validate.facts.addons import KUBE_ROUTER, asked_for
from harness.validate.facts.policy_cases import CASES, FIRST, JOB, OPEN, SECOND, WEB, Case, Connection
from harness.validate.inspection import Inspection
from harness.validate.judge.mismatch import eventually, require
from harness.validate.judge.policies import wrong_connections
from harness.validate.remote import policy_pods
from harness.validate.remote.policy_pods import PolicyPods

pytestmark = pytest.mark.when(phase=asked_for(KUBE_ROUTER))
LOGS = "kubectl --kubeconfig kubeconfig -n kube-system logs daemonset/kube-router"
RULES = "the log of kube-router on the server's and on the client's node; its chains: iptables-save -t filter"


@pytest.fixture(scope="module")
def families(inspection: Inspection, mirror: Mirror, timeouts: Timeouts) -> Iterator[tuple[PolicyPods, ...]]:
    """Return clients and servers as each IP family has them; they are there for the checks of this module."""
    image = f"{mirror.images}/{inspection.curated.images[AGNHOST]}"
    expected = inspection.expected
    try:
        networks = [one.pod_cidr for one in expected.families]
        yield policy_pods.place(inspection.api, expected.nodes, networks, image, timeouts)
    finally:
        policy_pods.remove(inspection.api, Deadline.after(timeouts.probe_remove))


def follow(pods: PolicyPods, case: Case, timeouts: Timeouts) -> None:
    """Give the pods a case's policies, and require that connections become as it says."""
    pods.give(case)
    seen(pods, case, timeouts)


def seen(pods: PolicyPods, case: Case, timeouts: Timeouts) -> None:
    """Require that connections become as a case says."""
    require(
        eventually(
            lambda: wrong_connections(pods, case),
            deadline=Deadline.after(timeouts.probe_follow),
            what="nodes to have rules for the policies",
        ),
        claim=f"connections in {pods.pod_network} work where policies allow them, and nowhere else, while {case.name}",
        look=RULES,
        do=LOGS,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-").replace(",", ""))
def test_a_policy_lets_through_what_it_allows(families: tuple[PolicyPods, ...], case: Case, timeouts: Timeouts) -> None:
    for pods in families:
        follow(pods, OPEN, timeouts)  # also shows that what is blocked next was not so before
        follow(pods, case, timeouts)


def test_a_policy_that_is_changed_or_taken_away_is_followed(
    families: tuple[PolicyPods, ...], timeouts: Timeouts
) -> None:
    for case in (FIRST, SECOND, OPEN):
        for pods in families:
            follow(pods, case, timeouts)


def test_a_pod_that_gets_another_label_is_another_peer(families: tuple[PolicyPods, ...], timeouts: Timeouts) -> None:
    def turned(one: Connection) -> bool:
        return one.client == JOB

    for pods in families:
        follow(pods, FIRST, timeouts)
        pods.relabel(WEB, JOB)
        pods.relabel(JOB, WEB)
        try:
            seen(pods, Case("labels are exchanged", FIRST.policies, turned), timeouts)
        finally:
            pods.relabel(WEB, WEB)
            pods.relabel(JOB, JOB)
        seen(pods, FIRST, timeouts)
        follow(pods, OPEN, timeouts)
