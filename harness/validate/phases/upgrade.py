"""Upgrades: of Kubernetes and of the container runtime: every component has changed, and only what had to restarted.

A runtime is replaced below its containers: those of pods that no drain moves (of a DaemonSet, static ones) run on, with
the shims that they have, and what begins afterwards is run by the new version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.model import Cell
from harness.validate.expected import CONTROL_PLANE_PROGRAMS, LEFT_OUT, upstream_of
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.findings import Mismatch, differs, differs_upstream, on_every, unjudged
from harness.validate.layout import absent, static_by_facts
from harness.validate.phases.observation import Observation
from harness.validate.variables import METRICS_SERVER

Versions = Mapping[str, str]


def wanted_versions(observation: Observation) -> dict[str, str]:
    """Return the version that must be seen at every place that shows the version of a component.

    A program that no machine runs under its own name, and of which the product does not say that it runs, has no place;
    nor has a version that the product decides.
    """
    expected = observation.expected
    versions = _agents(observation)
    for node in expected.control_plane:
        if expected.static("kube-apiserver") is not None or not absent(observation.facts, "kube-apiserver"):
            versions[f"{node}: API server, its /version"] = expected.kubernetes
            if expected.emulated_minor:
                versions[f"{node}: API server, emulates"] = expected.emulated_minor
        for program, static in static_by_facts(observation.facts, expected).items():
            version = expected.etcd_version if program == "etcd" else expected.kubernetes
            if program != "etcd" and static is not None:
                versions[f"{node}: {program}, running"] = version
            if static and version:
                versions[f"{node}: {program}, image"] = version
    if expected.etcd_version and (expected.leaves.etcd.runs_as is not None or not absent(observation.facts, "etcd")):
        for machine in expected.etcd:
            versions[f"{machine}: etcd, running"] = expected.etcd_version
            versions[f"{machine}: etcd, as it reports"] = expected.etcd_version
    if expected.coredns:
        versions["CoreDNS, running"] = versions["CoreDNS, image"] = expected.coredns
    return versions


def _agents(observation: Observation) -> dict[str, str]:
    """Return the places that show the versions of kubelets and kube-proxies."""
    expected = observation.expected
    versions: dict[str, str] = {}
    for node in expected.nodes:
        versions[f"{node}: kubelet, as its Node reports"] = expected.kubernetes_of(node)
        if expected.leaves.kubelet.unit is not None or not absent(observation.facts, "kubelet"):
            versions[f"{node}: kubelet, running"] = expected.kubernetes_of(node)
        if expected.kube_proxy_mode == LEFT_OUT:
            continue
        if expected.leaves.kube_proxy is not None or not absent(observation.facts, "kube-proxy"):
            versions[f"{node}: kube-proxy, running"] = expected.kube_proxy_version
            versions[f"{node}: kube-proxy, image"] = expected.kube_proxy_version
    return versions


def not_judged(observation: Observation) -> list[Mismatch]:
    """Return the components of which nothing shows a version that is known."""
    places = wanted_versions(observation)
    components = ("kubelet, running", "kube-proxy, running", *(f"{p}, running" for p in CONTROL_PLANE_PROGRAMS))
    components = (*components, "etcd, running", "CoreDNS, running")
    why = "no machine runs it under that name, or its version is not known"
    if observation.expected.kube_proxy_mode == LEFT_OUT:
        components = tuple(name for name in components if not name.startswith("kube-proxy"))
    return [unjudged(name, why) for name in components if not any(place.endswith(name) for place in places)]


def seen_versions(observation: Observation) -> dict[str, str]:
    """Return the versions that were seen, by place; where several run at once, all of them, with commas."""
    versions: dict[str, str] = {}
    for node in observation.view.nodes:
        kubelet = node["status"]["nodeInfo"]["kubeletVersion"]
        versions[f"{node['metadata']['name']}: kubelet, as its Node reports"] = kubelet.removeprefix("v")
    for machine, running in observation.running.items():
        for program in ("kubelet", "kube-proxy", *CONTROL_PLANE_PROGRAMS, "etcd"):
            versions[f"{machine}: {program}, running"] = ", ".join(running.versions.get(program, ()))
            versions[f"{machine}: {program}, image"] = _tags(observation.view, program, machine)
        versions[f"{machine}: API server, its /version"] = running.api_version
        versions[f"{machine}: API server, emulates"] = running.api_emulates
    for machine, member in observation.etcd.items():
        versions[f"{machine}: etcd, as it reports"] = member.version
    dns = {version for running in observation.running.values() for version in running.versions.get("coredns", ())}
    versions["CoreDNS, running"] = ", ".join(sorted(dns))
    versions["CoreDNS, image"] = _tags(observation.view, "coredns", "")
    return versions


def not_upgraded(before: Observation, after: Observation) -> list[Mismatch]:
    """Return where the old version was not seen before, or the new one is not seen after.

    Where the version must change, it must also differ from the one seen there before, whatever was expected.
    """
    old, new = wanted_versions(before), wanted_versions(after)
    was, now = seen_versions(before), seen_versions(after)
    changing = [place for place in new if place in old and old[place] != new[place]]
    mismatches = [] if changing else [Mismatch("the phase", "at least one component whose version changes", "none")]
    mismatches += _wrong(old, was, "before the phase")
    mismatches += _wrong(new, now, "after it")
    for place in changing:
        if was.get(place) == now.get(place) and upstream_of(old[place]) != upstream_of(new[place]):
            mismatches.append(Mismatch(place, f"another version than before, {old[place]}", now.get(place) or "none"))
    return mismatches + not_judged(after)


def side_by_side(before: Observation, after: Observation) -> dict[str, list[str]]:
    """Return the versions seen before and after at every place, for people to read."""
    was, now = seen_versions(before), seen_versions(after)
    places = {**wanted_versions(before), **wanted_versions(after)}
    return {place: [was.get(place, ""), now.get(place, "")] for place in sorted(places)}


def _wrong(expected_versions: Versions, observed: Versions, when: str) -> list[Mismatch]:
    return on_every(
        tuple(expected_versions),
        observed,
        lambda place, version: differs_upstream(f"{place}, {when}", "version", expected_versions[place], version),
    )


def _tags(view: ClusterView, component: str, node: str) -> str:
    """Return the versions of the images that a component's containers run, on a node or ("") on any."""
    pods = [pod for pod in view.system_pods if node in ("", pod["spec"].get("nodeName"))]
    tags = {_version(image) for pod in pods for image in _running_images(pod, component)}
    return ", ".join(sorted(tags))


def _running_images(pod: Json, component: str) -> Iterator[str]:
    """Yield the images of a pod's running containers; the spec's image where the runtime reports a digest."""
    if "deletionTimestamp" in pod["metadata"]:
        return
    specified = {container["name"]: container["image"] for container in pod["spec"]["containers"]}
    for container in pod["status"].get("containerStatuses", []):
        image = container["image"] if "/" in container["image"] else specified[container["name"]]
        if "running" in container.get("state", {}) and image.rpartition(":")[0].endswith(f"/{component}"):
            yield str(image)


def _version(image: str) -> str:
    """Return the version in an image's tag, without the revision of etcd's image (3.6.8-0)."""
    repository, _, tag = image.rpartition(":")
    return tag.partition("-")[0] if repository.endswith("/etcd") else tag.removeprefix("v")


OF_PLUGINS = {"flannel": "flanneld"}  # the program in a network plugin's image
IMAGE = ", image"


def wrong_running(observation: Observation) -> list[Mismatch]:
    """Return the programs that do not run in the cell's version, or not at all where they must."""
    expected_versions = {
        place: version for place, version in wanted_versions(observation).items() if not place.endswith(IMAGE)
    }
    expected_versions |= _others(observation)
    observed = seen_versions(observation)
    for machine, running in observation.running.items():
        observed |= {f"{machine}: {name}, running": ", ".join(versions) for name, versions in running.versions.items()}
    anywhere = {
        version for running in observation.running.values() for version in running.versions.get(METRICS_SERVER, ())
    }
    observed[f"{METRICS_SERVER}, running"] = ", ".join(sorted(anywhere))
    judged = on_every(
        tuple(expected_versions),
        observed,
        lambda place, version: differs(place, "version", expected_versions[place], version),
    )
    return judged + not_judged(observation)


def _others(observation: Observation) -> Mapping[str, str]:
    """Return the versions of what an upgrade of Kubernetes leaves alone: runtime, network plugin, metrics-server."""
    expected, expected_versions = observation.expected, {}
    plugin = OF_PLUGINS.get(expected.plugin.image or "", "") if expected.plugin is not None else ""
    for node in expected.nodes:
        if expected.leaves.runtime_unit is not None and expected.runtime_process and expected.runtime_version:
            expected_versions[f"{node}: {expected.runtime_process}, running"] = expected.runtime_version
        if plugin and expected.plugin_version:
            expected_versions[f"{node}: {plugin}, running"] = expected.plugin_version
    if METRICS_SERVER in expected.addons:
        expected_versions[f"{METRICS_SERVER}, running"] = expected.addons[METRICS_SERVER]
    return expected_versions


STAYS = {"DaemonSet", "Node"}  # owners of pods that a drain leaves where they are
MOST_IMAGES = 50  # that kubelet reports of a node (nodeStatusMaxImages)
Containers = Mapping[str, Mapping[str, str]]  # ids by container, by NAMESPACE/POD


def replaces(cell: Cell, index: int) -> bool:
    """Tell whether a phase changes the container runtime of an existing cluster, and not Kubernetes."""
    if index == 0 or not (cell.phases[index].cluster and cell.phases[index - 1].cluster):
        return False
    was, now = cell.phases[index - 1].values, cell.phases[index].values
    return was["runtime"] != now["runtime"] and was["kubernetes"] == now["kubernetes"]


def not_replaced(before: Observation, after: Observation) -> list[Mismatch]:
    """Return where the old runtime was not seen before, or the new one is not seen after: Nodes, running programs."""
    old, new = before.expected.runtime_version, after.expected.runtime_version
    if not old or not new:
        return [unjudged("the version of the container runtime", "the cell does not say it, or the product decides it")]
    if (before.expected.runtime, old) == (after.expected.runtime, new):
        return [Mismatch("the phase", "a container runtime whose version changes", old)]
    return [*_not_of_version(before, "before the phase"), *_not_of_version(after, "after it")]


def _not_of_version(observation: Observation, when: str) -> Iterator[Mismatch]:
    program, version = observation.expected.runtime_process, observation.expected.runtime_version
    nodes = by_name(observation.view.nodes)
    for name in observation.expected.nodes:
        reported = nodes[name]["status"]["nodeInfo"]["containerRuntimeVersion"] if name in nodes else "no Node"
        reported_version = reported.rpartition("://")[2].removeprefix("v")
        yield from differs(f"{name}, as its Node reports, {when}", "version", version, reported_version)
        running = observation.running[name].versions.get(program, ()) if name in observation.running else ()
        yield from differs(f"{name}: {program}, running, {when}", "version", version, ", ".join(running))


def staying(view: ClusterView) -> Containers:
    """Return the containers of the cluster's own pods that no drain moves."""
    containers: dict[str, dict[str, str]] = {}
    for pod in view.system_pods:
        if STAYS & {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}:
            containers[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = _ids(pod)
    return containers


def _ids(pod: Json) -> dict[str, str]:
    return {
        container["name"]: container.get("containerID", "")
        for container in pod["status"].get("containerStatuses") or []
    }


def started_anew(before: Containers, after: Containers) -> list[Mismatch]:
    """Return containers that are others than before, of pods that no drain moves."""

    def judge(pod: str, now: Mapping[str, str]) -> Iterator[Mismatch]:
        for container, was in before[pod].items():
            if now.get(container) != was:
                yield Mismatch(f"{pod} {container}", f"the container of before, {was}", now.get(container) or "none")

    return on_every(tuple(before), after, judge)


def images_of(view: ClusterView) -> dict[str, frozenset[str]]:
    """Return the names of the images that each node's runtime tells its kubelet of, without digests."""
    return {
        node["metadata"]["name"]: frozenset(
            name for image in node["status"].get("images", []) for name in image.get("names") or [] if "@" not in name
        )
        for node in view.nodes
    }


def lost_images(before: Mapping[str, frozenset[str]], after: Mapping[str, frozenset[str]]) -> list[Mismatch]:
    """Return nodes that no longer have the images that they had."""

    def judge(name: str, now: frozenset[str]) -> Iterator[Mismatch]:
        if not before[name]:
            yield Mismatch(f"{name}, before the phase", "images", "none")
        elif len(now) >= MOST_IMAGES:
            yield unjudged(f"the images of {name}", f"its Node names {MOST_IMAGES} of them, and no more")
        elif gone := before[name] - now:
            yield Mismatch(name, f"the {len(before[name])} images of before", f"no {', '.join(sorted(gone))}")

    return on_every(tuple(before), after, judge)


def wrong_shims(after: Observation) -> list[Mismatch]:
    """Return shims that are not of the runtime under which their pod began, and those that run nothing."""
    if after.expected.runtime_process != "containerd":
        return [unjudged("what runs the containers", "only containerd has shims that are looked at", whole=True)]
    version = after.expected.runtime_version

    def judge(name: str) -> Iterator[Mismatch]:
        for shim in after.running[name].shims if name in after.running else ():
            where = f"{name}, the shim of sandbox {shim.pod[:12]}"
            if shim.later:
                yield from differs(f"{where}, which began after containerd", "version", version, shim.version)
            if not shim.version:
                yield Mismatch(where, "a program that tells its version", "none")
            if not shim.children:
                yield Mismatch(where, "containers that it runs", "none: it was left behind")

    mismatches = [mismatch for name in after.expected.nodes for mismatch in judge(name)]
    none = [name for name in after.expected.nodes if name not in after.running or not after.running[name].shims]
    return [*mismatches, *(Mismatch(name, "shims of its pods", "none") for name in none)]


def older_shims(after: Observation) -> str:
    """Return how many pods are still run by the shims that they began with, for people to read."""
    every = [shim for programs in after.running.values() for shim in programs.shims]
    old = [shim for shim in every if shim.version != after.expected.runtime_version]
    return f"{len(old)} of {len(every)} pods run under the shims of before, until they start anew"
