"""Whether an upgrade has changed every component, judged by the processes and pods that run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.facts.cluster import ClusterView, Json
from harness.validate.facts.expected import CONTROL_PLANE_PROGRAMS, LEFT_OUT, upstream_of
from harness.validate.judge.finding import unjudged
from harness.validate.judge.layout import absent, static_by_facts
from harness.validate.judge.mismatch import Mismatch, differs_upstream, on_every
from harness.validate.phases.observation import Observation

Versions = Mapping[str, str]


def wanted_versions(seen: Observation) -> dict[str, str]:
    """Return the version that must be seen at every place that shows the version of a component.

    A program that no machine runs under its own name, and of which the product does not say that it runs, has no place;
    nor has a version that the product decides.
    """
    expected = seen.expected
    wanted = _agents(seen)
    for node in expected.control_plane:
        if expected.static("kube-apiserver") is not None or not absent(seen.facts, "kube-apiserver"):
            wanted[f"{node}: API server, its /version"] = expected.kubernetes
        for program, static in static_by_facts(seen.facts, expected).items():
            version = expected.etcd_version if program == "etcd" else expected.kubernetes
            if program != "etcd" and static is not None:
                wanted[f"{node}: {program}, running"] = version
            if static and version:
                wanted[f"{node}: {program}, image"] = version
    if expected.etcd_version and (expected.leaves.etcd.runs_as is not None or not absent(seen.facts, "etcd")):
        for machine in expected.etcd:
            wanted[f"{machine}: etcd, running"] = expected.etcd_version
            wanted[f"{machine}: etcd, as it reports"] = expected.etcd_version
    if expected.coredns:
        wanted["CoreDNS, running"] = wanted["CoreDNS, image"] = expected.coredns
    return wanted


def _agents(seen: Observation) -> dict[str, str]:
    """Return the places that show the versions of kubelets and kube-proxies."""
    expected = seen.expected
    wanted: dict[str, str] = {}
    for node in expected.nodes:
        wanted[f"{node}: kubelet, as its Node reports"] = expected.kubernetes
        if expected.leaves.kubelet.unit is not None or not absent(seen.facts, "kubelet"):
            wanted[f"{node}: kubelet, running"] = expected.kubernetes
        if expected.kube_proxy_mode == LEFT_OUT:
            continue
        if expected.leaves.kube_proxy is not None or not absent(seen.facts, "kube-proxy"):
            wanted[f"{node}: kube-proxy, running"] = expected.kubernetes
            wanted[f"{node}: kube-proxy, image"] = expected.kubernetes
    return wanted


def not_judged(seen: Observation) -> list[Mismatch]:
    """Return the components of which nothing shows a version that is known."""
    places = wanted_versions(seen)
    components = ("kubelet, running", "kube-proxy, running", *(f"{p}, running" for p in CONTROL_PLANE_PROGRAMS))
    components = (*components, "etcd, running", "CoreDNS, running")
    why = "no machine runs it under that name, or its version is not known"
    if seen.expected.kube_proxy_mode == LEFT_OUT:
        components = tuple(name for name in components if not name.startswith("kube-proxy"))
    return [unjudged(name, why) for name in components if not any(place.endswith(name) for place in places)]


def seen_versions(seen: Observation) -> dict[str, str]:
    """Return the versions that were seen, by place; where several run at once, all of them, with commas."""
    found: dict[str, str] = {}
    for node in seen.view.nodes:
        kubelet = node["status"]["nodeInfo"]["kubeletVersion"]
        found[f"{node['metadata']['name']}: kubelet, as its Node reports"] = kubelet.removeprefix("v")
    for machine, running in seen.running.items():
        for program in ("kubelet", "kube-proxy", *CONTROL_PLANE_PROGRAMS, "etcd"):
            found[f"{machine}: {program}, running"] = ", ".join(running.versions.get(program, ()))
            found[f"{machine}: {program}, image"] = _tags(seen.view, program, machine)
        found[f"{machine}: API server, its /version"] = running.api_version
    for machine, member in seen.etcd.items():
        found[f"{machine}: etcd, as it reports"] = member.version
    dns = {version for running in seen.running.values() for version in running.versions.get("coredns", ())}
    found["CoreDNS, running"] = ", ".join(sorted(dns))
    found["CoreDNS, image"] = _tags(seen.view, "coredns", "")
    return found


def not_upgraded(before: Observation, after: Observation) -> list[Mismatch]:
    """Return where the old version was not seen before, or the new one is not seen after.

    Where the version must change, it must also differ from the one seen there before, whatever was expected.
    """
    old, new = wanted_versions(before), wanted_versions(after)
    was, now = seen_versions(before), seen_versions(after)
    changing = [place for place in new if place in old and old[place] != new[place]]
    found = [] if changing else [Mismatch("the phase", "at least one component whose version changes", "none")]
    found += _wrong(old, was, "before the phase")
    found += _wrong(new, now, "after it")
    for place in changing:
        if was.get(place) == now.get(place) and upstream_of(old[place]) != upstream_of(new[place]):
            found.append(Mismatch(place, f"another version than before, {old[place]}", now.get(place) or "none"))
    return found + not_judged(after)


def side_by_side(before: Observation, after: Observation) -> dict[str, list[str]]:
    """Return the versions seen before and after at every place, for people to read."""
    was, now = seen_versions(before), seen_versions(after)
    places = {**wanted_versions(before), **wanted_versions(after)}
    return {place: [was.get(place, ""), now.get(place, "")] for place in sorted(places)}


def _wrong(wanted: Versions, seen: Versions, when: str) -> list[Mismatch]:
    return on_every(
        tuple(wanted),
        seen,
        lambda place, version: differs_upstream(f"{place}, {when}", "version", wanted[place], version),
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
