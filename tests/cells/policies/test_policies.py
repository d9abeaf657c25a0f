"""Where the cell enforces network policies, each lets through what it allows, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.curated import AGNHOST
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import eventually, require
from harness.validate.inspection import Inspection
from harness.validate.topics import policies
from harness.validate.topics.policies import (
    CASES,
    FIRST,
    JOB,
    OPEN,
    SECOND,
    WEB,
    Case,
    Connection,
    PolicyPods,
    wrong_connections,
)
from harness.validate.variables import ADD_ONS, KUBE_ROUTER, enforces_policies

pytestmark = pytest.mark.when(phase=enforces_policies)
KUBECTL = "kubectl --kubeconfig kubeconfig"
RULES = "the log of kube-router on the server's and on the client's node; its chains: iptables-save -t filter"


@dataclass(frozen=True)
class Trial:
    """Clients and servers as each IP family has them, and how to require what becomes of their connections.

    look, do: where the cause of a wrong connection shows, and the command that prints it.
    """

    families: tuple[PolicyPods, ...]
    timeouts: Timeouts
    look: str
    do: str

    def follow(self, pods: PolicyPods, case: Case) -> None:
        """Give the pods a case's policies, and require that connections become as it says."""
        pods.give(case)
        self.seen(pods, case)

    def seen(self, pods: PolicyPods, case: Case) -> None:
        """Require that connections become as a case says."""
        require(
            eventually(
                lambda: wrong_connections(pods, case),
                deadline=Deadline.after(self.timeouts.probe_follow),
                what="nodes to have rules for the policies",
            ),
            claim=f"connections in {pods.pod_network} work where policies allow them, and nowhere else, "
            f"while {case.name}",
            look=self.look,
            do=self.do,
        )


@pytest.fixture(scope="module")
def trial(inspection: Inspection, mirror: Mirror, timeouts: Timeouts) -> Iterator[Trial]:
    """Return clients and servers; they are there for the checks of this module."""
    image = inspection.probe_image(AGNHOST, mirror.images)
    expected = inspection.expected
    try:
        networks = [one.pod_cidr for one in expected.families]
        families = policies.place(inspection.api, expected.nodes, networks, image, timeouts)
        yield Trial(families, timeouts, *_where_it_shows(expected))
    finally:
        policies.remove(inspection.api, Deadline.after(timeouts.probe_remove))


def _where_it_shows(expected: ExpectedGuest) -> tuple[str, str]:
    ours = ADD_ONS[KUBE_ROUTER]
    if expected.variables.get(ours.variable):
        look, daemon = RULES, ours.daemon_set
    else:
        look, daemon = expected.look, expected.plugin.daemon if expected.plugin is not None else None
    words = f"-n {daemon[0]} logs daemonset/{daemon[1]}" if daemon is not None else "get pods -A -o wide"
    return look, f"{KUBECTL} {words}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-").replace(",", ""))
def test_a_policy_lets_through_what_it_allows(trial: Trial, case: Case) -> None:
    """Each connection works, is refused or is dropped, as the API defines it for these NetworkPolicies."""
    for pods in trial.families:
        trial.follow(pods, OPEN)  # also shows that what is blocked next was not so before
        trial.follow(pods, case)


def test_a_policy_that_is_changed_or_taken_away_is_followed(trial: Trial) -> None:
    """Connections follow a NetworkPolicy that changes, and one that goes."""
    for case in (FIRST, SECOND, OPEN):
        for pods in trial.families:
            trial.follow(pods, case)


def test_a_pod_that_gets_another_label_is_another_peer(trial: Trial) -> None:
    """Connections follow the labels of pods, by which a NetworkPolicy chooses them."""

    def turned(one: Connection) -> bool:
        return one.client == JOB

    for pods in trial.families:
        trial.follow(pods, FIRST)
        pods.relabel(WEB, JOB)
        pods.relabel(JOB, WEB)
        try:
            trial.seen(pods, Case("labels are exchanged", FIRST.policies, turned))
        finally:
            pods.relabel(WEB, WEB)
            pods.relabel(JOB, JOB)
        trial.seen(pods, FIRST)
        trial.follow(pods, OPEN)
