"""System pods: ready, of the expected version, from the mirror, and none that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.kube import Cluster
from harness.kube.resources import REPLICA_SET, SERVICE_ACCOUNT
from harness.validate.expected import CONTROL_PLANE_PROGRAMS, PROXY_MODES, ExpectedGuest, upstream_of
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.findings import Mismatch, differs, lasting, on_every, same_set, together, unjudged
from harness.validate.layout import static_by_view
from harness.validate.variables import ADD_ONS

ENDED = ("Succeeded", "Failed")  # phases that a pod does not leave
RESTARTS = 2  # static pods restart once or twice while a control plane starts; more is a loop
ROTATION, STAGES = "cluster_ca_rotation", 3  # a rotation of CAs ends every component once in each of its stages


def unready_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return pods that are not Running and ready or keep restarting, and static pods that are missing."""
    mismatches: list[Mismatch] = []
    most = RESTARTS + (STAGES if expected.variables.get(ROTATION) else 0)
    for pod in view.lasting_pods:
        if _done(pod, expected):
            continue
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        if pod["status"].get("phase") in ENDED:  # it stays what it is
            mismatches += lasting(differs(where, "phase", "Running", pod["status"]["phase"]))
            continue
        mismatches += differs(where, "phase", "Running", pod["status"].get("phase"))
        mismatches += differs(where, "Ready", "True", conditions.get("Ready"))
        for container in _statuses(pod):
            waiting = (container.get("state", {}).get("waiting") or {}).get("reason")
            mismatches += differs(f"{where} {container['name']}", "waiting", None, waiting)
            if container.get("restartCount", 0) > most:
                restarts = str(container["restartCount"])  # which only grows
                mismatches.append(
                    Mismatch(f"{where} {container['name']}", f"at most {most} restarts", restarts, lasting=True)
                )
    if not view.system_pods:
        mismatches.append(Mismatch("the cluster", "system pods", "none"))
    programs = static_by_view(view, expected)
    static = {f"{p}-{name}" for p, is_static in programs.items() if is_static for name in expected.control_plane}
    mismatches += same_set("kube-system", "static pods", static, static & set(by_name(view.system_pods)))
    unknown = [program for program, is_static in programs.items() if is_static is None]
    why = "the API shows none, and product.yml does not say how they run"
    return [*mismatches, *([unjudged(f"static pods of {', '.join(unknown)}", why)] if unknown else [])]


def _statuses(pod: Json) -> list[Json]:
    """Return the statuses of a pod's containers; of those that run before the others only the ones that have not ended.

    Their `waiting` says PodInitializing until it is their turn, which the pod's phase says already.
    """
    first = pod["status"].get("initContainerStatuses") or []
    return [*(status for status in first if not status.get("ready")), *(pod["status"].get("containerStatuses") or [])]


def _done(pod: Json, expected: ExpectedGuest) -> bool:
    """Tell whether a pod did what its Job was for; a pod of a namespace that is not the cluster's, whatever made it."""
    owners = {owner.get("kind") for owner in pod["metadata"].get("ownerReferences", [])}
    own = expected.namespaces
    free = "Job" in owners if own is None else pod["metadata"]["namespace"] not in own
    return pod["status"].get("phase") == "Succeeded" and free


def foreign_images(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return system pods whose images do not come from the mirror: an air-gapped guest could not pull them."""
    if expected.leaves.images_from_mirror is None:
        why = "product.yml does not say that they are named after the mirror (images_from_mirror)"
        return [unjudged("where images come from", why, whole=True)]
    images = {
        (f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", container["image"])
        for pod in view.system_pods
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"], *_statuses(pod)]
        if not container["image"].startswith("sha256:")  # of a status, where the runtime knows no name
    }
    if not images:
        return [Mismatch("kube-system", "pods", "none")]
    requirement = f"an image of {expected.image_prefix}"
    prefix = f"{expected.image_prefix}/"  # 10.0.0.1:50001 begins with 10.0.0.1:5000, too
    return [Mismatch(pod, requirement, image) for pod, image in sorted(images) if not image.startswith(prefix)]


def wrong_image_versions(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the components whose pods run another version's image than expected."""
    static, plugin = static_by_view(view, expected), expected.plugin
    proxied = expected.leaves.kube_proxy is not None and expected.kube_proxy_mode in PROXY_MODES
    versions: Mapping[str, str] = {
        **{program: f"v{expected.kubernetes}" for program in CONTROL_PLANE_PROGRAMS if static[program]},
        **({"kube-proxy": f"v{expected.kube_proxy_version}"} if proxied or _runs(view, "kube-proxy") else {}),
        "coredns": expected.coredns and f"v{expected.coredns}",
        **({"etcd": expected.etcd_version} if static["etcd"] else {}),
        **{ADD_ONS[name].image: f"v{version}" for name, version in expected.addons.items()},
    }
    if plugin is not None and plugin.image is not None:
        versions = {**versions, plugin.image: expected.plugin_version and f"v{expected.plugin_version}"}
    expected_tags = {component: version for component, version in versions.items() if version}
    decided = [component for component, version in versions.items() if not version]
    why = "the product decides it, or the cell's variables have none"
    unknown: list[Mismatch] = [unjudged(f"the version of {component}", why) for component in decided]
    if not expected_tags:
        return together(unknown or [unjudged("versions of images", "no component of a known name runs as a pod")])
    pods_by_tag: dict[str, dict[str, list[str]]] = {}  # by component and tag the pods that run it
    for pod in view.system_pods:
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for container in pod["spec"]["containers"]:
            repository, _, tag = container["image"].rpartition(":")
            pods_by_tag.setdefault(repository.rpartition("/")[2], {}).setdefault(tag, []).append(place)

    def judge(component: str, tags: Mapping[str, list[str]]) -> Iterator[Mismatch]:
        for tag, pods in sorted(tags.items()):
            # etcd's image has a revision behind its version: 3.6.8-0
            version = tag.partition("-")[0] if component == "etcd" else upstream_of(tag)
            if version != upstream_of(expected_tags[component]):
                yield Mismatch(
                    f"pod {', '.join(pods)}", f"{component} {upstream_of(expected_tags[component])}", version
                )

    return unknown + on_every(tuple(expected_tags), pods_by_tag, judge)


def _runs(view: ClusterView, component: str) -> bool:
    images = (c["image"].rpartition(":")[0] for pod in view.system_pods for c in pod["spec"]["containers"])
    return any(image.rpartition("/")[2] == component for image in images)


CRITICAL = 2_000_000_000  # the priority of system-cluster-critical (kubernetes.io, "Guaranteed Scheduling")
MIRROR = "kubernetes.io/config.mirror"  # annotation of what the API shows of static pods
HELPERS = "helper-pod-"  # of the storage provisioner: they make and delete volumes' folders and end


def strange_system_pods(api: Cluster, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return pods of the cluster's own namespaces that nobody knows, or that could not start anew as they are."""
    leaves = expected.leaves
    if leaves.namespaces is None or leaves.add_ons is None or leaves.dns.deployment is None:
        why = "product.yml does not say which there are (namespaces, add_ons, dns.deployment)"
        return [unjudged("which pods run in the cluster's own namespaces", why, whole=True)]
    if not view.system_pods:
        return [Mismatch("the cluster", "system pods", "none")]
    known = _known(view, expected)
    owners = _owners(api)
    mismatches: list[Mismatch] = []
    for pod in view.system_pods:
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        owner = _owner(pod, owners)
        if owner not in known and not pod["metadata"]["name"].startswith(HELPERS):
            mismatches.append(Mismatch(f"pod {place}", "a pod that the product has", f"one of {owner}"))
    return [*mismatches, *_unimportant(view, expected, owners), *_without_account(api, view)]


def _known(view: ClusterView, expected: ExpectedGuest) -> set[str]:
    """Return what pods of the cluster may belong to: KIND NAMESPACE/NAME."""
    leaves, plugin = expected.leaves, expected.plugin
    owners = {f"Deployment {leaves.dns.deployment}"}
    for name in expected.addons:
        if (deployment := ADD_ONS[name].deployment) is not None:
            owners.add(f"Deployment {(leaves.add_ons or {}).get(name, '/'.join(deployment))}")
        if (daemon_set := ADD_ONS[name].daemon_set) is not None:
            owners.add(f"DaemonSet {'/'.join(daemon_set)}")
    if expected.kube_proxy_mode in PROXY_MODES and leaves.kube_proxy is not None:
        owners.add(f"DaemonSet {leaves.kube_proxy}")
    if plugin is not None and plugin.daemon is not None:
        owners.add(f"DaemonSet {'/'.join(plugin.daemon)}")
    static = [program for program, is_static in static_by_view(view, expected).items() if is_static]
    owners |= {f"static pod kube-system/{program}-{node}" for program in static for node in expected.control_plane}
    others = leaves.control_plane.other_static_pods or ()
    return owners | {f"static pod kube-system/{name}-{node}" for name in others for node in expected.nodes}


def _owners(api: Cluster) -> dict[str, str]:
    """Return the Deployment of each ReplicaSet, as NAMESPACE/NAME."""
    owner_by_name = {}
    for replica_set in api.list(REPLICA_SET).items:
        space, name = replica_set["metadata"]["namespace"], replica_set["metadata"]["name"]
        for owner in replica_set["metadata"].get("ownerReferences", ()):
            owner_by_name[f"{space}/{name}"] = f"{owner['kind']} {space}/{owner['name']}"
    return owner_by_name


def _owner(pod: Json, owners: dict[str, str]) -> str:
    meta = pod["metadata"]
    if MIRROR in (meta.get("annotations") or {}):
        return f"static pod {meta['namespace']}/{meta['name']}"
    for owner in meta.get("ownerReferences", ()):
        place = f"{meta['namespace']}/{owner['name']}"
        return (
            owners.get(place, f"{owner['kind']} {place}")
            if owner["kind"] == "ReplicaSet"
            else f"{owner['kind']} {place}"
        )
    return "nobody"


def _unimportant(view: ClusterView, expected: ExpectedGuest, owners: dict[str, str]) -> Iterator[Mismatch]:
    """Yield pods of kubeadm's add-ons that are not evicted last."""
    if expected.leaves.kubeadm is None:
        return
    kubeadms = {f"Deployment {expected.leaves.dns.deployment}", f"DaemonSet {expected.leaves.kube_proxy}"}
    for pod in view.system_pods:
        priority = pod["spec"].get("priority", 0)
        if _owner(pod, owners) in kubeadms and priority < CRITICAL:
            place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            yield Mismatch(f"pod {place}", f"a priority of {CRITICAL} or more", str(priority))


def _without_account(api: Cluster, view: ClusterView) -> Iterator[Mismatch]:
    """Yield the ServiceAccounts of running pods that are gone, or that give no token to the next pod."""
    accounts = {
        (account["metadata"]["namespace"], account["metadata"]["name"]): account
        for account in api.list(SERVICE_ACCOUNT).items
    }
    used = {(pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "")) for pod in view.system_pods}
    for space, name in sorted(used):
        if not name:  # of a static pod
            continue
        account, where = accounts.get((space, name)), f"ServiceAccount {space}/{name}"
        if account is None:
            yield Mismatch(where, "to exist: pods run with it", "none")
        elif account.get("automountServiceAccountToken") is False:
            yield Mismatch(where, "automountServiceAccountToken true, or none", "false")
