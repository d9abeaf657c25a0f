"""KubeVirt and CDI in a kind cluster: our embedded part attached to it, or a release installed in it. Idempotent.

A release's manifests are applied as they are: any kind that the cluster serves, in the file's order.

Our embedded part runs on this host, and so do its machines: a Node object of the cluster stands for the host. What the
cluster itself runs stays on the node that is a container, and no machine is ever scheduled there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.embedded.node.registration import RUNS_PODS
from harness.errors import BadInput, InfraError
from harness.files import write_atomically
from harness.infra.cluster.capacity import usable
from harness.infra.cluster.kubevirt import DEFAULT_CLASS, IMAGE_VOLUME, LOCAL_PATH
from harness.infra.host import pki
from harness.infra.host.layout import Layout
from harness.infra.host.network import address_of
from harness.infra.host.pki import ensure_kubeconfig
from harness.infra.host.program import KUBEVIRT as KUBEVIRT_PROGRAM
from harness.infra.kind import releases
from harness.infra.kind.cluster import Installed, KindLimits, Made
from harness.infra.kind.releases import Manifest, Release, Releases
from harness.kube.client import Cluster, Json, resource_of
from harness.kube.resources import (
    CDI,
    CLUSTER_ROLE_BINDING,
    CRD,
    DAEMON_SET,
    DEPLOYMENT,
    KUBEVIRT,
    NODE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    STORAGE_PROFILE,
    Resource,
)
from harness.until import Deadline, NotYet, until

SERVED_SECONDS = 60.0  # an API server that is ready serves a new kind within seconds
PROFILE_SECONDS = 60.0  # CDI makes it when it sees the class, and is available by then
TOKEN_SECONDS = 30.0  # the controller manager of a cluster that is ready makes it at once
IMAGE_VOLUME_SINCE = (1, 35)  # with older clusters, or an older containerd, a container disk is mounted empty
CONTAINERD_SINCE = (2, 1)  # CRI image volumes: https://github.com/containerd/containerd/releases/tag/v2.1.0
CLAIM_PROPERTIES = [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]
ACCOUNT = "vmatrix-kubevirt"
NAMESPACE = "kube-system"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def install(cluster: Cluster, chosen: Releases, *, emulation: bool, seconds: float) -> None:
    """Install KubeVirt and CDI, wait until both are available, and complete the storage profiles.

    Raises:
        BadInput: a manifest has no recorded checksum; nothing was changed.
        InfraError: a manifest cannot be downloaded or has another checksum.
        TimedOut: one of them did not become available; with its conditions and the pods that are not ready.
    """
    texts = fetch(chosen)
    settings = kubevirt_settings(emulation=emulation, image_volume=image_volumes(cluster))
    stretch = seconds / KindLimits.kubevirt
    _put(cluster, chosen.kubevirt, texts, settings, stretch)
    _put(cluster, chosen.cdi, texts, {}, stretch)
    deadline = Deadline.after(seconds)
    for resource, release in ((KUBEVIRT, chosen.kubevirt), (CDI, chosen.cdi)):
        wait_available(cluster, resource, release.version, deadline)
    complete_profiles(cluster, stretch)


def fetch(chosen: Releases) -> dict[str, str]:
    """Return every manifest's text by its URL, each downloaded at most once.

    Raises BadInput when one has no recorded checksum; InfraError when one cannot be downloaded or has another checksum.
    """
    releases.require_pinned(chosen)
    return {m.url: releases.obtain(m) for r in (chosen.kubevirt, chosen.cdi) for m in r.manifests}


def _put(cluster: Cluster, release: Release, texts: Mapping[str, str], settings: Json, stretch: float) -> None:
    def objects(manifest: Manifest) -> list[Json]:
        return documents(texts[manifest.url], source=manifest.name)

    apply(cluster, objects(release.operator), stretch)
    apply(cluster, [merged(body, settings) for body in objects(release.resource)], stretch)


def kubevirt_settings(*, emulation: bool, image_volume: bool) -> Json:
    """Return what of the KubeVirt object differs from the release's."""
    developer: Json = {"useEmulation": True} if emulation else {}
    if not image_volume:
        developer["disabledFeatureGates"] = [IMAGE_VOLUME]
    return {"spec": {"configuration": {"developerConfiguration": developer}}} if developer else {}


def image_volumes(cluster: Cluster) -> bool:
    """Tell whether pods of every node can mount images, as KubeVirt's container disks do by default."""
    return all(mounts_images(n["status"]["nodeInfo"]) for n in cluster.list(NODE).items if usable(n))


def mounts_images(node: Mapping[str, Any]) -> bool:
    """Tell whether a node with these versions (`status.nodeInfo`) can mount images."""
    runtime = str(node.get("containerRuntimeVersion", ""))
    if _numbers(str(node.get("kubeletVersion", ""))) < IMAGE_VOLUME_SINCE:
        return False
    return not runtime.startswith("containerd://") or _numbers(runtime) >= CONTAINERD_SINCE


def _numbers(version: str) -> tuple[int, ...]:
    match = re.search(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def merged(body: Json, more: Json) -> Json:
    """Return an object with more in it: mappings are merged, lists get what they lack, anything else is replaced."""
    answer = dict(body)
    for name, value in more.items():
        had = answer.get(name)
        if isinstance(value, dict) and isinstance(had, dict):
            answer[name] = merged(had, value)
        elif isinstance(value, list) and isinstance(had, list):
            answer[name] = [*had, *(item for item in value if item not in had)]
        else:
            answer[name] = value
    return answer


def documents(text: str, *, source: str) -> list[Json]:
    """Return the objects of a manifest.

    Raises:
        InfraError: it is not YAML, or something in it is not a Kubernetes object.
    """
    try:
        bodies = yaml_text.documents(text, source)
    except BadInput as error:
        raise InfraError(error.summary) from error
    wrong = [d for d in bodies if not isinstance(d, dict) or not {"apiVersion", "kind", "metadata"} <= d.keys()]
    if wrong or not bodies:
        raise InfraError(f"{source} contains {'something that is not a' if wrong else 'no'} Kubernetes object")
    return bodies


def apply(cluster: Cluster, objects: list[Json], stretch: float = 1.0) -> None:
    """Apply objects server-side, each once its kind is served; `stretch`: of the time until it is.

    Raises:
        ApiFailure: the API refused one.  TimedOut: a kind did not come to be served.
    """
    for body in objects:
        resource = wait_served(cluster, body["apiVersion"], body["kind"], stretch)
        cluster.apply(resource, body)
        if resource == CRD:
            _wait_established(cluster, body["metadata"]["name"], stretch)


def wait_served(cluster: Cluster, api_version: str, kind: str, stretch: float = 1.0) -> Resource:
    """Return a kind as the cluster serves it, waiting a moment for one whose definition is new.

    Raises:
        TimedOut: the cluster does not serve it.
    """

    def served() -> Resource | NotYet:
        return resource_of(cluster, api_version, kind) or NotYet("the API does not list it")

    what = f"the cluster to serve {kind} of {api_version}"
    return until(served, deadline=Deadline.after(SERVED_SECONDS * stretch), what=what, interval=0.5)


def _wait_established(cluster: Cluster, name: str, stretch: float) -> None:
    def established() -> bool | NotYet:
        conditions = ((cluster.get(CRD, name) or {}).get("status") or {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions) or NotYet("it is not yet")

    what = f"CRD {name} to be established"
    until(established, deadline=Deadline.after(SERVED_SECONDS * stretch), what=what, interval=0.2)


def wait_available(cluster: Cluster, resource: Resource, version: str, deadline: Deadline) -> None:
    """Wait until an operator says that what it deploys is available, in the version that was asked for.

    Raises:
        TimedOut: with the conditions, and what keeps pods of its namespaces from being ready.
    """

    def available() -> bool | NotYet:
        for body in cluster.list(resource).items:
            status = body.get("status") or {}
            conditions = {c["type"]: c for c in status.get("conditions") or []}
            observed_version = observed(body)
            if (conditions.get("Available") or {}).get("status") != "True":
                return NotYet(_conditions_text(conditions) or f"phase {status.get('phase', 'unknown')}")
            if observed_version != version:
                return NotYet(f"it is {observed_version or 'of no version yet'}")
            return True
        return NotYet(f"no {resource.kind} exists")

    what = f"{resource.kind} {version} to be available"
    until(available, deadline=deadline, what=what, interval=2.0, describe=lambda: "\n".join(waiting_pods(cluster)))


def _conditions_text(conditions: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{c['type']}={c['status']} {c.get('message') or c.get('reason') or ''}".strip() for c in conditions.values()
    )


def waiting_pods(cluster: Cluster) -> list[str]:
    """Return one line for each container that waits, anywhere: the image that cannot be pulled is among them."""
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']} {status['name']}: "
        f"{waiting.get('reason', '')} {waiting.get('message', '')}".rstrip()
        for pod in cluster.list(POD).items
        for status in (pod.get("status") or {}).get("containerStatuses") or []
        if (waiting := (status.get("state") or {}).get("waiting"))
    ]


def complete_profiles(cluster: Cluster, stretch: float = 1.0) -> None:
    """Say of local-path classes what CDI does not know: claims without an access mode would stay pending for ever.

    Raises:
        TimedOut: CDI made no profile of one of them.
    """
    for storage_class in cluster.list(STORAGE_CLASS).items:
        if storage_class.get("provisioner") != LOCAL_PATH:
            continue
        name = storage_class["metadata"]["name"]
        profile = until(
            lambda name=name: cluster.get(STORAGE_PROFILE, name) or NotYet("it does not exist"),  # type: ignore[misc]
            deadline=Deadline.after(PROFILE_SECONDS * stretch),
            what=f"CDI to make a profile of storage class {name}",
        )
        if not (profile.get("status") or {}).get("claimPropertySets"):
            cluster.merge(STORAGE_PROFILE, name, {"spec": {"claimPropertySets": CLAIM_PROPERTIES}})


def planned(chosen: Releases, texts: Mapping[str, str]) -> Installed:
    """Return what an installation of these releases comes to. `texts`: of the manifests, by URL."""
    operators = [
        f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        for release in (chosen.kubevirt, chosen.cdi)
        for body in documents(texts[release.operator.url], source=release.operator.name)
        if body["kind"] == DEPLOYMENT.kind
    ]
    return Installed(chosen.kubevirt.version, chosen.cdi.version, tuple(operators))


def problems(cluster: Cluster, made: Made) -> list[str]:
    """Return what is wrong with an installation of releases, besides what KubeVirt and CDI say of themselves.

    Raises:
        ApiFailure, Unreachable: the cluster cannot be asked.
    """
    if made.installed is None:
        return ["the installation of KubeVirt and CDI did not come to its end"]
    versions = ((KUBEVIRT, "KubeVirt", made.installed.kubevirt), (CDI, "CDI", made.installed.cdi))
    mistakes: list[str] = []
    for resource, product, version in versions:
        observed_versions = [observed(body) for body in cluster.list(resource).items]
        mistakes += [
            f"{product} is {seen_version or 'of no version yet'}, not {version}"
            for seen_version in observed_versions
            if seen_version != version
        ]
    return [*mistakes, *_operators(cluster, made.installed.operators)]


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


def attach(cluster: Cluster, nodes: Collection[str], layout: Layout, index: int) -> None:
    """Prepare a cluster, whose `nodes` are containers, for the embedded KubeVirt, which is started afterwards."""
    ensure_certificates(layout.pki, address=address_of(index), node=layout.node, kubeconfig=layout.kubeconfig)
    ensure_account(cluster, layout.kubeconfig, layout.kubeconfig_of(KUBEVIRT_PROGRAM))
    keep_apart(cluster, nodes)


def ensure_certificates(folder: Path, *, address: str, node: str, kubeconfig: Path) -> None:
    """Make the certificates of the part's services, and have it trust the cluster's own authority besides.

    Args:
        address: what the services listen on.
        node: the Node that stands for this host.
        kubeconfig: of the cluster; its API server shows certificates of its authority when it asks for logs.
    """
    pki.ensure(folder, addresses=[address], names=[], node=node)
    bundle = folder / f"{pki.CA}.crt"
    of_cluster = authority(kubeconfig)
    if of_cluster not in bundle.read_bytes():
        write_atomically(bundle, bundle.read_bytes().rstrip(b"\n") + b"\n" + of_cluster)


def authority(kubeconfig: Path) -> bytes:
    """Return the certificate authority of a kubeconfig's cluster in PEM."""
    return base64.b64decode(_cluster(kubeconfig)["certificate-authority-data"])


def ensure_account(cluster: Cluster, admin: Path, target: Path) -> None:
    """Write the kubeconfig of the embedded KubeVirt: a separate service account, which nobody else uses.

    The webhooks let this identity alone change what real operators would.
    Raises TimedOut when the cluster made no token.
    """
    meta = {"name": ACCOUNT, "namespace": NAMESPACE}
    cluster.ensure(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    cluster.ensure(
        CLUSTER_ROLE_BINDING,
        {
            "apiVersion": CLUSTER_ROLE_BINDING.api_version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": CLUSTER_ROLE_BINDING.group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
    )
    cluster.ensure(
        SECRET,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {**meta, "annotations": {"kubernetes.io/service-account.name": ACCOUNT}},
        },
    )
    ensure_kubeconfig(target, cluster=("kind", _cluster(admin)), user=(ACCOUNT, {"token": _token(cluster)}))


def _token(cluster: Cluster) -> str:
    def token() -> str | NotYet:
        secret = cluster.get(SECRET, ACCOUNT, NAMESPACE) or {}
        encoded = (secret.get("data") or {}).get("token")
        return base64.b64decode(encoded).decode() if encoded else NotYet("the secret has none")

    return until(token, deadline=Deadline.after(TOKEN_SECONDS), what=f"account {ACCOUNT} to have a token", interval=0.2)


def keep_apart(cluster: Cluster, nodes: Collection[str]) -> None:
    """Keep pods on the nodes that are containers, and machines off them.

    A pod on the Node that stands for the host would wait for ever: only machines run there. The cluster's own pods may
    look for a node before that one has its taint, so they name theirs. Machines need a label that these nodes lack.
    `nodes`: the names of the nodes that are containers.
    """
    for node in nodes:
        cluster.merge(NODE, node, {"metadata": {"labels": {RUNS_PODS: "true"}}, "spec": {"unschedulable": None}})
    for resource in (DEPLOYMENT, DAEMON_SET):
        for body in cluster.list(resource).items:
            patch = _staying(body)
            if patch is not None:
                meta = body["metadata"]
                cluster.merge(resource, meta["name"], patch, meta["namespace"])
    for body in cluster.list(STORAGE_CLASS).items:
        annotations = body["metadata"].get("annotations") or {}
        if annotations.get(DEFAULT_CLASS) == "true" and "vmatrix" not in str(body.get("provisioner")):
            cluster.merge(
                STORAGE_CLASS, body["metadata"]["name"], {"metadata": {"annotations": {DEFAULT_CLASS: "false"}}}
            )


def _staying(workload: Mapping[str, Any]) -> Json | None:
    """Return the patch that keeps a workload's pods on nodes that run pods, None when they stay there already."""
    spec = workload["spec"]["template"]["spec"]
    if {CONTROL_PLANE, RUNS_PODS} & set(spec.get("nodeSelector") or {}):
        return None
    return {"spec": {"template": {"spec": {"nodeSelector": {RUNS_PODS: "true"}}}}}


def _cluster(kubeconfig: Path) -> dict[str, Any]:
    """Return what a kubeconfig says of its one cluster."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    try:
        return dict(config["clusters"][0]["cluster"])
    except (KeyError, IndexError, TypeError) as error:
        raise InfraError(
            f"{kubeconfig} names no cluster", hint="vmatrix infra down --provider kind", paths=[kubeconfig]
        ) from error
