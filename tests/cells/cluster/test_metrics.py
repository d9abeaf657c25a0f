"""Where the cell has metrics-server, it measures what every node uses."""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.kube import Cluster
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.findings import eventually, require
from harness.validate.topics import addons
from harness.validate.variables import METRICS_SERVER, asked_for

pytestmark = pytest.mark.when(phase=asked_for(METRICS_SERVER))
LOOK = "metrics-server's log; the APIService v1beta1.metrics.k8s.io; the kubelets' /metrics/resource"


def test_the_usage_of_every_node_is_measured(api: Cluster, expected: ExpectedGuest, timeouts: Timeouts) -> None:
    require(
        eventually(
            lambda: addons.unmeasured_nodes(api, expected, timedelta(seconds=timeouts.metrics_age)),
            deadline=Deadline.after(timeouts.metrics),
            what="metrics-server to measure every node",
        ),
        claim="metrics.k8s.io reports a recent usage above zero for every node of the inventory and for no other",
        look=LOOK,
        do="kubectl --kubeconfig kubeconfig top nodes; kubectl --kubeconfig kubeconfig get apiservices",
    )


def test_the_usage_of_pods_on_every_node_is_measured(
    api: Cluster, view: ClusterView, expected: ExpectedGuest, timeouts: Timeouts
) -> None:
    require(
        eventually(
            lambda: addons.unmeasured_pods(api, view, expected),
            deadline=Deadline.after(timeouts.metrics),
            what="metrics-server to measure pods on every node",
        ),
        claim="metrics.k8s.io reports a usage above zero for system pods on every node",
        look=LOOK,
        do="kubectl --kubeconfig kubeconfig top pods -A",
    )
