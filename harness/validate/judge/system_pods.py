"""What must be true of a guest's system pods: ready, of the expected version, from the mirror."""

from __future__ import annotations

from collections.abc import Mapping

from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.cluster import ClusterView, by_name
from harness.validate.facts.expected import CONTROL_PLANE_PROGRAMS, ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set

RESTARTS = 2  # static pods restart once or twice while a control plane starts; more is a loop


def unready_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return system pods that are not Running and ready or keep restarting, and static pods that are missing."""
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
    programs = (*CONTROL_PLANE_PROGRAMS, *(["etcd"] if expected.stacked_etcd else []))
    static = {f"{program}-{name}" for program in programs for name in expected.control_plane}
    return found + same_set("kube-system", "static pods", static, static & set(by_name(view.system_pods)))


def foreign_images(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return system pods whose images do not come from the mirror: an air-gapped guest could not pull them."""
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
    wanted: Mapping[str, str] = {
        **dict.fromkeys((*CONTROL_PLANE_PROGRAMS, "kube-proxy"), f"v{expected.kubernetes}"),
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
