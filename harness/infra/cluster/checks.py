"""Checks of an infra cluster: what it must have, looked at through its API before anything is made there.

They cover any cluster with KubeVirt and CDI. Every check returns findings; only a silent API ends them early.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from harness.errors import BadInput
from harness.infra.cluster.access import WHO_AM_I, check_access, check_namespace
from harness.infra.cluster.capacity import Need, check_nodes, check_quota
from harness.infra.cluster.kubevirt import check_configuration, check_deployed, check_storage
from harness.infra.cluster.network import check_binding, check_ipv6, check_networks
from harness.infra.cluster.trial import NetworkTrial, check_network
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Infra, Unreachable
from harness.kube.resources import CDI, KUBEVIRT, NETWORK_POLICY

ADVISED_SECONDS = 30.0  # not a wait: a difference that is reported
MOST_SECONDS = 300.0  # not a wait: a difference that is refused; tokens and certificates would be


def check_clock(cluster: Cluster, now: Callable[[], float]) -> Iterator[Finding]:
    """Yield a finding when the clocks differ by more than half a minute.

    The API stamps its answer to a review with its own time, in whole seconds. `now`: this host's, since the epoch.
    """
    before = now()
    answer = cluster.request("POST", WHO_AM_I.path(), body={"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind})
    after = now()
    stamp = (answer.get("metadata") or {}).get("creationTimestamp")
    if not stamp:
        return
    there = datetime.fromisoformat(stamp).timestamp()
    ahead = before - (there + 1) if before > there + 1 else min(0.0, after - there)
    if abs(ahead) < ADVISED_SECONDS:
        return
    way = "ahead of" if ahead > 0 else "behind"
    yield Finding(
        f"this host's clock is {abs(ahead):.0f} s {way} the API's",
        "one clock sets when cells expire, the other when they are deleted; tokens and certificates may be refused",
        "timedatectl set-ntp true, here and on the cluster's nodes",
        fatal=abs(ahead) >= MOST_SECONDS,
    )


Check = Callable[[], Iterator[Finding]]
KUBEVIRT_INSTALL = "https://kubevirt.io/user-guide/cluster_admin/installation/"
CDI_INSTALL = "https://github.com/kubevirt/containerized-data-importer#deploy-it"


@dataclass(frozen=True)
class Use:
    """What an infra cluster is to be used for.

    namespace: the one that all cells share; without it each has its own.
    storage_class: of machines' disks; the cluster's default without it.
    need: of the largest cell, as far as it is known.
    networks: of the guests, by what they are for.  outer: the cluster's own, as far as the settings name them.
    bridged: whether machines are to be bridged to the pod network.
    isolated: whether each cell is to get a NetworkPolicy.
    ipv6: whether machines are to have IPv6 addresses.
    trial: how the network is to be tried with two pods; without it, it is judged by names.
    now: this host's clock, in seconds since the epoch.
    """

    namespace: str | None = None
    storage_class: str | None = None
    need: Need = field(default_factory=Need)
    networks: Mapping[str, str] = field(default_factory=dict)
    outer: tuple[str, ...] = ()
    bridged: bool = True
    isolated: bool = True
    ipv6: bool = False
    trial: NetworkTrial | None = None
    now: Callable[[], float] = time.time


def check_cluster(infra: Infra, use: Use | None = None) -> list[Finding]:
    """Return what an infra cluster lacks for a use, all at once."""
    return _checked(infra, lambda cluster, served: _checks(cluster, served, use or Use()))


def check_pod_network(infra: Infra, use: Use) -> list[Finding]:
    """Return what is wrong with the pod network of a cluster, as `check_cluster` does, and nothing else."""
    return _checked(infra, lambda cluster, served: [_network(cluster, served, use)])


def _checked(infra: Infra, checks: Callable[[Cluster, frozenset[str]], Iterable[Check]]) -> list[Finding]:
    """Carry out checks, unless the cluster cannot be asked."""
    try:
        cluster = infra.open()
        served = _served(cluster)
    except BadInput as error:
        return [Finding(error.summary, "virtual machines are created through its API", error.hint)]
    except Unreachable as error:
        if not error.passing:
            return [Finding(error.summary, "virtual machines are created through its API", error.hint)]
        why = error.summary.rpartition(": ")[2]
        remedy = f"is the cluster up and reachable from this host? kubectl --kubeconfig {infra.kubeconfig} version"
        return [Finding(f"the API at {cluster.server} does not answer", why, remedy)]
    except ApiFailure as failure:
        what = f"the API refuses these credentials: {failure.code} {failure.reason}"
        return [Finding(what, failure.message, f"log in again, or use another kubeconfig than {infra.kubeconfig}")]
    findings = (finding for check in checks(cluster, served) for finding in _guarded(check))
    return list(dict.fromkeys(findings))  # several checks may not look at the same thing


def _network(cluster: Cluster, served: frozenset[str], use: Use) -> Check:
    return lambda: check_network(cluster, served, use.trial, bridged=use.bridged, isolated=use.isolated)


def _checks(cluster: Cluster, served: frozenset[str], use: Use) -> Iterator[Check]:
    yield lambda: _groups(served)
    if KUBEVIRT.api_version in served:
        yield lambda: check_deployed(cluster, KUBEVIRT, "KubeVirt")
        yield lambda: check_configuration(cluster, _minor(cluster))
        if use.bridged:
            yield lambda: check_binding(cluster)
    if CDI.api_version in served:
        yield lambda: check_deployed(cluster, CDI, "CDI")
        yield lambda: check_storage(cluster, use.storage_class)
    yield lambda: check_access(cluster, use.namespace, served, without=() if use.isolated else (NETWORK_POLICY,))
    yield lambda: check_nodes(cluster, use.need)
    yield _network(cluster, served, use)
    yield lambda: check_networks(cluster, use.networks, use.outer)
    if use.ipv6:
        yield lambda: check_ipv6(cluster)
    if (shared := use.namespace) is not None:
        yield lambda: check_namespace(cluster, shared)
        yield lambda: check_quota(cluster, shared, use.need)
    yield lambda: check_clock(cluster, use.now)


def _guarded(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Carry out a check; one without permission reports that and does not stop the others."""
    findings: list[Finding] = []
    try:
        findings += check()
    except ApiFailure as failure:
        what, remedy = f"not checked: {failure.message or failure.summary}", "ask the cluster's owner for read access"
        findings.append(Finding(what, "the check was skipped", remedy, fatal=not failure.forbidden))
    except Unreachable as error:
        findings.append(Finding(error.summary, "the API stopped answering during the checks", "try again"))
    return findings


def _served(cluster: Cluster) -> frozenset[str]:
    """Return all group/versions that the API serves."""
    groups = cluster.object("GET", "/apis").get("groups") or []
    return frozenset(v["groupVersion"] for group in groups for v in group.get("versions") or [])


def _minor(cluster: Cluster) -> int:
    """Return the minor of the cluster's Kubernetes, 0 when it does not say."""
    match = re.match(r"v?1\.(\d+)", cluster.version())
    return int(match[1]) if match else 0


def _groups(served: frozenset[str]) -> Iterator[Finding]:
    required = (
        (KUBEVIRT.api_version, "KubeVirt", "it runs virtual machines", KUBEVIRT_INSTALL),
        (CDI.api_version, "CDI", "it imports and clones disks", CDI_INSTALL),
    )
    for api_version, product, why, install in required:
        if api_version in served:
            continue
        group = api_version.partition("/")[0]
        others = sorted(v for v in served if v.startswith(f"{group}/"))
        hint = f" (it serves {', '.join(others)})" if others else ""
        yield Finding(f"the API does not serve {api_version}{hint}", f"{product}: {why}", f"install it: {install}")
