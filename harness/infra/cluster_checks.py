"""What an infra cluster must have, looked at through its API before anything is made there.

Covers any cluster with KubeVirt and CDI. Every check returns findings; only a silent API ends them early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from harness.errors import BadInput
from harness.infra.access import check_access
from harness.infra.findings import Finding
from harness.infra.nodes import free_for_machines, quantity, usable
from harness.kube import ApiFailure, Cluster, Resource
from harness.kube.client import Json, Unreachable
from harness.kube.resources import CDI, KUBEVIRT, NODE, STORAGE_CLASS, STORAGE_PROFILE

KUBEVIRT_INSTALL = "https://kubevirt.io/user-guide/cluster_admin/installation/"
CDI_INSTALL = "https://github.com/kubevirt/containerized-data-importer#deploy-it"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
DEFAULT_VIRT_CLASS = "storageclass.kubevirt.io/is-default-virt-class"  # CDI prefers it over the former
DEPLOYED = "Deployed"
FORBIDDEN = 403


def check_cluster(path: Path, context: str | None = None, *, memory_mib: int = 0, cpus: float = 0) -> list[Finding]:
    """Return what an infra cluster lacks, all at once.

    Args:
        path, context: the kubeconfig and the context in it (None: its current one).
        memory_mib, cpus: what the machines need together, 0 when that is not known yet.
    """
    try:
        cluster = Cluster.from_kubeconfig(path, context=context)
        served = _served(cluster)
    except BadInput as error:
        return [Finding(error.summary, "machines are made through the API it leads to", error.hint)]
    except Unreachable as error:
        return [_unreachable(path, cluster, error)]
    except ApiFailure as failure:
        return [_refused(path, failure)]
    checks: list[Callable[[], Iterator[Finding]]] = [lambda: _groups(served)]
    if KUBEVIRT.api_version in served:
        checks.append(lambda: _deployed(cluster, KUBEVIRT, "KubeVirt"))
    if CDI.api_version in served:
        checks += [lambda: _deployed(cluster, CDI, "CDI"), lambda: _storage(cluster)]
    checks += [lambda: check_access(cluster), lambda: _capacity(cluster, memory_mib, cpus)]
    return [finding for check in checks for finding in _guarded(check)]


def _guarded(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Carry out a check; one that may not look says so, and does not keep the others from looking."""
    try:
        return list(check())
    except ApiFailure as failure:
        what = f"could not look: {failure.message or failure.summary}"
        advice = failure.code == FORBIDDEN
        return [Finding(what, "this check was left out", "ask the cluster's owner for read access", fatal=not advice)]
    except Unreachable as error:
        return [Finding(error.summary, "the API stopped answering while it was looked at", "try again")]


def _served(cluster: Cluster) -> frozenset[str]:
    """Return all group/versions that the API serves."""
    groups = cluster.request("GET", "/apis").get("groups", [])
    return frozenset(v["groupVersion"] for group in groups for v in group.get("versions", []))


def _unreachable(path: Path, cluster: Cluster, error: Unreachable) -> Finding:
    return Finding(
        f"the API at {cluster.server} does not answer",
        f"{error.summary.rpartition(': ')[2]}",
        f"is the cluster up, and does this host reach it? kubectl --kubeconfig {path} version",
    )


def _refused(path: Path, failure: ApiFailure) -> Finding:
    return Finding(
        f"the API refuses these credentials: {failure.code} {failure.reason}",
        failure.message,
        f"log in again, or take another kubeconfig than {path}",
    )


def _groups(served: frozenset[str]) -> Iterator[Finding]:
    wanted = (
        (KUBEVIRT.api_version, "KubeVirt", "virtual machines are its objects", KUBEVIRT_INSTALL),
        (CDI.api_version, "CDI", "disks are imported and cloned by it", CDI_INSTALL),
    )
    for api_version, product, why, install in wanted:
        if api_version in served:
            continue
        group = api_version.partition("/")[0]
        others = sorted(v for v in served if v.startswith(f"{group}/"))
        found = f" (it serves {', '.join(others)})" if others else ""
        yield Finding(f"the API does not serve {api_version}{found}", f"{product}: {why}", f"install it: {install}")


def _deployed(cluster: Cluster, resource: Resource, product: str) -> Iterator[Finding]:
    objects = cluster.list(resource).items
    phases = [o.get("status", {}).get("phase", "unknown") for o in objects]
    if DEPLOYED in phases:
        return
    see = f"kubectl get {resource.plural}.{resource.group} -A -o yaml"
    if not objects:
        yield Finding(f"there is no {resource.kind} object", f"{product} is not installed, only its kinds are", see)
    else:
        yield Finding(f"{product} is {', '.join(phases)}, not {DEPLOYED}", "its controllers may not work", see)


def _storage(cluster: Cluster) -> Iterator[Finding]:
    name = _default_class(cluster.list(STORAGE_CLASS).items)
    if name is None:
        yield Finding(
            "there is no default storage class",
            "disks are asked for without naming one",
            f"""kubectl annotate storageclass NAME {DEFAULT_CLASS}=true""",
        )
        return
    profile = cluster.get(STORAGE_PROFILE, name)
    if profile is None or not profile.get("status", {}).get("claimPropertySets"):
        yield Finding(
            f"the StorageProfile of storage class {name} has no claimPropertySets",
            "CDI cannot tell which access mode a disk gets",
            f"kubectl patch storageprofile {name} --type merge -p "
            """'{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem"}]}}'""",
        )


def _default_class(classes: list[Json]) -> str | None:
    for annotation in (DEFAULT_VIRT_CLASS, DEFAULT_CLASS):
        for storage_class in classes:
            if (storage_class["metadata"].get("annotations") or {}).get(annotation) == "true":
                return str(storage_class["metadata"]["name"])
    return None


def _capacity(cluster: Cluster, memory_mib: int, cpus: float) -> Iterator[Finding]:
    nodes = [n for n in cluster.list(NODE).items if usable(n)]
    if not nodes:
        yield Finding("no node is ready and schedulable", "machines need one", "kubectl get nodes")
        return
    free = free_for_machines(cluster)
    if free.memory_mib < memory_mib or free.cpus < cpus:
        total = sum(quantity(n["status"]["allocatable"].get("memory", "0")) for n in nodes) / 2**20
        yield Finding(
            f"{free.memory_mib} MiB and {free.cpus:.1f} CPUs are free on {len(nodes)} nodes ({total:.0f} MiB in all)",
            f"{memory_mib} MiB and {cpus:.1f} CPUs are needed",
            "choose a smaller topology, wait for others to end, or see: kubectl describe nodes",
        )
