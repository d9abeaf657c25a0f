"""What must be true of a guest's nodes and system pods, judged from one look at its API."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.cluster import ClusterView, Json
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
# Conditions that a node must have, with the status that is good.
CONDITIONS = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
RESTARTS = 2  # static pods restart once or twice while a control plane comes up; more is a loop


def by_name(objects: Iterable[Json]) -> dict[str, Json]:
    """Return objects by their name."""
    return {obj["metadata"]["name"]: obj for obj in objects}


def unready_nodes(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines that are no node, nodes that are no machine, and nodes that are not well."""
    nodes = by_name(view.nodes)

    def judge(name: str, node: Json) -> list[Mismatch]:
        conditions = {c["type"]: c for c in node["status"].get("conditions", [])}
        found: list[Mismatch] = []
        for kind, good in CONDITIONS.items():
            condition = conditions.get(kind, {})
            if condition.get("status") != good:
                why = f"{condition.get('status', 'none')} ({condition.get('reason')}: {condition.get('message')})"
                found.append(Mismatch(name, f"{kind}={good}", why))
        return found + differs(name, "unschedulable", False, node["spec"].get("unschedulable", False))

    return same_set("the cluster", "nodes", expected.nodes, nodes) + on_every(expected.nodes, nodes, judge)


def wrong_node_versions(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes whose kubelet or container runtime says another version than expected."""

    def judge(name: str, node: Json) -> list[Mismatch]:
        said = node["status"]["nodeInfo"]
        runtime = f"{expected.runtime}://{expected.runtime_version}"
        # containerd says its version as it was stamped: with or without a v
        seen = said["containerRuntimeVersion"].replace("://v", "://")
        kubelet = differs(name, "kubelet", f"v{expected.kubernetes}", said["kubeletVersion"])
        return kubelet + differs(name, "runtime", runtime, seen)

    return on_every(expected.nodes, by_name(view.nodes), judge)


def wrong_node_networks(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes with a foreign address, or a pod network outside of the cluster's or shared with another node."""
    nodes = by_name(view.nodes)
    whole = ipaddress.ip_network(expected.pod_cidr)
    ranges = {name: node["spec"].get("podCIDR", "") for name, node in nodes.items()}

    def judge(name: str, node: Json) -> list[Mismatch]:
        internal = [a["address"] for a in node["status"].get("addresses", []) if a["type"] == "InternalIP"]
        found = differs(name, "InternalIP", [expected.addresses[name]], internal)
        own = ranges[name]
        if not own or not ipaddress.ip_network(own).subnet_of(whole):  # type: ignore[arg-type]
            found.append(Mismatch(name, f"a podCIDR within {whole}", repr(own)))
        twins = sorted(other for other, taken in ranges.items() if other != name and own and taken == own)
        return found + differs(name, f"other nodes with {own}", [], twins)

    return on_every(expected.nodes, nodes, judge)


def wrong_roles(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes that are labelled as control plane without being it, or the other way round."""
    labelled = {n["metadata"]["name"] for n in view.nodes if CONTROL_PLANE_LABEL in n["metadata"].get("labels", {})}
    found = same_set("the cluster", "control-plane nodes", expected.control_plane, labelled)

    def judge(name: str, node: Json) -> list[Mismatch]:
        # node.kubernetes.io/* mirror the node's conditions, which are judged on their own
        lasting = [t for t in node["spec"].get("taints", []) if not t["key"].startswith("node.kubernetes.io/")]
        taints = {f"{t['key']}:{t['effect']}" for t in lasting}
        wanted = {f"{CONTROL_PLANE_LABEL}:NoSchedule"} if name not in expected.workers and expected.workers else set()
        return same_set(name, "taints", wanted, taints)

    return found + on_every(expected.nodes, by_name(view.nodes), judge)


def unready_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return system pods that are not Running and ready, and containers that keep restarting.

    Static pods of every control plane must be among them, so that an empty list cannot pass.
    """
    found: list[Mismatch] = []
    for pod in view.system_pods:
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        found += differs(where, "phase", "Running", pod["status"].get("phase"))
        found += differs(where, "Ready", "True", conditions.get("Ready"))
        for container in pod["status"].get("containerStatuses", []):
            waiting = (container.get("state", {}).get("waiting") or {}).get("reason")
            found += differs(f"{where} {container['name']}", "waiting", None, waiting)
            if container.get("restartCount", 0) > RESTARTS:
                found.append(Mismatch(where, f"at most {RESTARTS} restarts", str(container["restartCount"])))
    programs = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    programs += ["etcd"] if expected.stacked_etcd else []
    static = {f"{program}-{name}" for program in programs for name in expected.control_plane}
    return found + same_set("kube-system", "static pods", static, static & set(by_name(view.system_pods)))


def foreign_images(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return system pods whose images do not come from the mirror: a guest that pulls elsewhere is not air-gapped."""
    images = {
        (f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", container["image"])
        for pod in view.system_pods
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    }
    if not images:
        return [Mismatch("kube-system", "pods", "none")]
    wanted = f"an image of {expected.registry}"
    return [Mismatch(pod, wanted, image) for pod, image in sorted(images) if not image.startswith(expected.registry)]


def wrong_image_versions(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the components whose pods run another version's image than expected."""
    kubernetes = f"v{expected.kubernetes}"
    wanted: Mapping[str, str] = {
        "kube-apiserver": kubernetes,
        "kube-controller-manager": kubernetes,
        "kube-scheduler": kubernetes,
        "kube-proxy": kubernetes,
        "coredns": f"v{expected.coredns}",
        **({"etcd": expected.etcd_version} if expected.stacked_etcd else {}),
        **{ADD_ONS[name].image: f"v{version}" for name, version in expected.addons.items()},
        **({expected.plugin.image: f"v{expected.plugin_version}"} if expected.plugin.image is not None else {}),
    }
    seen: dict[str, set[str]] = {}
    for pod in view.system_pods:
        for container in pod["spec"]["containers"]:
            repository, _, tag = container["image"].rpartition(":")
            seen.setdefault(repository.rpartition("/")[2], set()).add(tag)

    def judge(component: str, tags: set[str]) -> list[Mismatch]:
        # etcd's image has a revision behind its version: 3.6.8-0
        versions = {tag.partition("-")[0] for tag in tags} if component == "etcd" else tags
        return differs(component, "version", [wanted[component]], sorted(versions))

    return on_every(tuple(wanted), seen, judge)
