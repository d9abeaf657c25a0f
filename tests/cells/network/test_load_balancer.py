"""Where the cell has MetalLB, Services of type LoadBalancer answer a client outside of the cluster at their address."""

from __future__ import annotations

from functools import partial

import pytest

from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.findings import NotRun, eventually, require
from harness.validate.inspection import Inspection
from harness.validate.probes import Probes
from harness.validate.topics import load_balancer
from harness.validate.topics.load_balancer import get_from_outside
from harness.validate.variables import METALLB, asked_for

pytestmark = pytest.mark.when(phase=asked_for(METALLB))
LOGS = "kubectl --kubeconfig kubeconfig -n metallb-system logs"
UNREACHED = "this process reaches machines through the infra cluster's API alone, and not their network"
ANNOUNCED = "the speakers' logs; kubectl get servicel2statuses -A, which names the machine that announces an address"


@pytest.fixture(scope="module")
def balanced(inspection: Inspection, probes: Probes) -> Probes:
    """Return the probes, with Services of type LoadBalancer in front of them, which go with the probes' namespace."""
    load_balancer.create(inspection.api)
    return probes


@pytest.fixture(scope="module")
def ask(inspection: Inspection, timeouts: Timeouts) -> load_balancer.Ask:
    """Return what dials as a client outside of the cluster: this process."""
    if any(machine.tunnels is not None for machine in inspection.guest.environment.machines):
        raise NotRun(UNREACHED)
    return partial(get_from_outside, seconds=timeouts.probe_proxy)


def test_services_for_outside_have_addresses_of_the_pool(
    inspection: Inspection, balanced: Probes, timeouts: Timeouts
) -> None:
    pool = load_balancer.pool_of(inspection.expected.variables)
    require(
        eventually(
            lambda: load_balancer.wrong_addresses(balanced.api, pool),
            deadline=Deadline.after(timeouts.probe_follow),
            what="MetalLB to give addresses",
        ),
        claim="each Service of type LoadBalancer has an address of the pool for itself",
        look="the controller's log; the IPAddressPools in metallb-system; the events of the Service",
        do=f"{LOGS} deployment/controller",
    )


def test_a_client_outside_reaches_every_backend_at_the_address_of_a_service(
    balanced: Probes, ask: load_balancer.Ask, timeouts: Timeouts
) -> None:
    require(
        eventually(
            lambda: load_balancer.unserved_outside(balanced.api, balanced, ask),
            deadline=Deadline.after(timeouts.probe_follow),
            what="a speaker to announce the Service's address",
        ),
        claim="who is outside of the cluster reaches each backend of a Service of type LoadBalancer at its address",
        look=f"{ANNOUNCED}; kube-proxy's rules for it",
        do=f"{LOGS} daemonset/speaker; ip neigh",
    )


def test_a_local_service_shows_its_pods_the_client_outside(
    balanced: Probes, ask: load_balancer.Ask, timeouts: Timeouts
) -> None:
    require(
        eventually(
            lambda: load_balancer.hidden_clients(balanced.api, ask),
            deadline=Deadline.after(timeouts.probe_follow),
            what="a speaker to announce the Service's address",
        ),
        claim="with externalTrafficPolicy Local, a pod sees the address of the client outside and not that of a node",
        look=f"{ANNOUNCED}; rules that translate the client's address",
        do=f"{LOGS} daemonset/speaker",
    )
