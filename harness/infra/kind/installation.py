"""Whether KubeVirt and CDI of an instance are installed as a whole and work: what is missing, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.infra.kind import manifests
from harness.infra.kind.record import Installed, Made
from harness.infra.kind.releases import Releases
from harness.kube import Cluster
from harness.kube.client import Json
from harness.kube.resources import CDI, DEPLOYMENT, KUBEVIRT


def planned(wanted: Releases, texts: Mapping[str, str]) -> Installed:
    """Return what an installation of these releases comes to. `texts`: of the manifests, by URL."""
    operators = [
        f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        for release in (wanted.kubevirt, wanted.cdi)
        for body in manifests.documents(texts[release.operator.url], source=release.operator.name)
        if body["kind"] == DEPLOYMENT.kind
    ]
    return Installed(wanted.kubevirt.version, wanted.cdi.version, tuple(operators))


def problems(cluster: Cluster, made: Made) -> list[str]:
    """Return what is wrong with an installation of releases, besides what KubeVirt and CDI say of themselves.

    Raises:
        ApiFailure, Unreachable: the cluster cannot be asked.
    """
    if made.installed is None:
        return ["the installation of KubeVirt and CDI did not come to its end"]
    versions = ((KUBEVIRT, "KubeVirt", made.installed.kubevirt), (CDI, "CDI", made.installed.cdi))
    found: list[str] = []
    for resource, product, version in versions:
        seen = [observed(body) for body in cluster.list(resource).items]
        found += [f"{product} is {it or 'of no version yet'}, not {version}" for it in seen if it != version]
    return [*found, *_operators(cluster, made.installed.operators)]


def observed(body: Json) -> str:
    """Return the version that an operator says it has deployed; "" while it says none."""
    status = body.get("status") or {}
    return str(status.get("observedKubeVirtVersion") or status.get("observedVersion") or "")


def _operators(cluster: Cluster, names: tuple[str, ...]) -> Iterator[str]:
    for full in names:
        namespace, _, name = full.partition("/")
        body = cluster.get(DEPLOYMENT, name, namespace)
        if body is None:
            yield f"the Deployment {full} does not exist"
        elif not (body.get("status") or {}).get("availableReplicas"):
            yield f"no pod of the Deployment {full} is available"
