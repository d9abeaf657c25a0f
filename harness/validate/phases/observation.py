"""Observation: a guest at one moment, before or after a phase, which the checks of phases compare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP, SERVICE
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import DNS_LABEL, ClusterView, Json, dns_service
from harness.validate.facts.node import EtcdView, NodeFacts
from harness.validate.facts.programs import RunningPrograms
from harness.validate.inspection import Inspection, asked_of_programs, gather_programs
from harness.validate.topics.kubelet import kubelet_configurations

# Services whose addresses DNS is asked to resolve: another one after a phase than before it, so that no answer was
# cached under the old settings.
BEFORE, AFTER = "default/kubernetes", "the DNS server's"
CACHE = re.compile(r"^\s*cache\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Observation:
    """A guest at one moment.

    facts, running: by machine.  kubelets: the configuration that each kubelet reports, by node.
    coredns: the data of its ConfigMap.
    """

    expected: ExpectedGuest
    view: ClusterView
    facts: Mapping[str, NodeFacts]
    running: Mapping[str, RunningPrograms]
    kubelets: Mapping[str, Mapping[str, Any]]
    coredns: Mapping[str, str]

    @property
    def etcd(self) -> Mapping[str, EtcdView]:
        """Return what each machine's etcd reports."""
        return {name: facts.etcd for name, facts in self.facts.items() if facts.etcd is not None}


def observe(inspection: Inspection, service: str = BEFORE) -> Observation:
    """Look at a guest once it has settled, or its time to do so is over.

    Args:
        service: BEFORE or AFTER: the Service whose address DNS is asked to resolve.

    Raises:
        VmatrixError: a machine or the API does not answer.
    """
    view, expected = inspection.view, inspection.expected
    servers = dns_servers(view)
    asked = asked_of_programs(expected, _address_of(inspection.api, service, expected))
    options = {name: {**asked, "dns": servers if name in expected.nodes else []} for name in expected.machines}
    corefile = inspection.api.get(CONFIG_MAP, "coredns", "kube-system") or {}
    return Observation(
        expected=expected,
        view=view,
        facts=inspection.facts,
        running=gather_programs(inspection.hosts, options, inspection.timeouts),
        kubelets=kubelet_configurations(inspection.api, expected),
        coredns=corefile.get("data") or {},
    )


def dns_servers(view: ClusterView) -> list[str]:
    """Return the addresses of CoreDNS's running pods."""
    return sorted(
        str(pod["status"]["podIP"])
        for pod in view.system_pods
        if DNS_LABEL in pod["metadata"].get("labels", {}).items() and _runs(pod)
    )


def cache_seconds(corefile: str) -> str:
    """Return the N of the lines `cache N` of a Corefile, "" when there is none or they differ."""
    periods = set(CACHE.findall(corefile))
    return periods.pop() if len(periods) == 1 else ""


def _runs(pod: Json) -> bool:
    leaving = "deletionTimestamp" in pod["metadata"]
    return pod["status"].get("phase") == "Running" and bool(pod["status"].get("podIP")) and not leaving


def _address_of(api: Cluster, service: str, expected: ExpectedGuest) -> str:
    service_object = api.get(SERVICE, "kubernetes", "default") if service == BEFORE else dns_service(api, expected)
    return str((service_object or {"spec": {}})["spec"].get("clusterIP", "127.0.0.1"))
