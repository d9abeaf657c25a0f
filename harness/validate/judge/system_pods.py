"""What must be true of a guest's system pods: ready, of the expected version, from the mirror."""

from __future__ import annotations

from collections.abc import Mapping

from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.facts.expected import CONTROL_PLANE_PROGRAMS, PROXY_MODES, ExpectedGuest, upstream_of
from harness.validate.judge.finding import lasting, together, unjudged
from harness.validate.judge.layout import static_by_view
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set

ENDED = ("Succeeded", "Failed")  # phases that a pod does not leave
RESTARTS = 2  # static pods restart once or twice while a control plane starts; more is a loop


def unready_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return pods that are not Running and ready or keep restarting, and static pods that are missing."""
    found: list[Mismatch] = []
    for pod in view.lasting_pods:
        if _done(pod, expected):
            continue
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        if pod["status"].get("phase") in ENDED:  # it stays what it is
            found += lasting(differs(where, "phase", "Running", pod["status"]["phase"]))
            continue
        found += differs(where, "phase", "Running", pod["status"].get("phase"))
        found += differs(where, "Ready", "True", conditions.get("Ready"))
        for container in _statuses(pod):
            waiting = (container.get("state", {}).get("waiting") or {}).get("reason")
            found += differs(f"{where} {container['name']}", "waiting", None, waiting)
            if container.get("restartCount", 0) > RESTARTS:
                seen = str(container["restartCount"])  # which only grows
                found.append(
                    Mismatch(f"{where} {container['name']}", f"at most {RESTARTS} restarts", seen, lasting=True)
                )
    if not view.system_pods:
        found.append(Mismatch("the cluster", "system pods", "none"))
    programs = static_by_view(view, expected)
    static = {f"{p}-{name}" for p, wanted in programs.items() if wanted for name in expected.control_plane}
    found += same_set("kube-system", "static pods", static, static & set(by_name(view.system_pods)))
    unknown = [program for program, wanted in programs.items() if wanted is None]
    why = "the API shows none, and product.yml does not say how they run"
    return [*found, *([unjudged(f"static pods of {', '.join(unknown)}", why)] if unknown else [])]


def _statuses(pod: Json) -> list[Json]:
    """Return the statuses of a pod's containers; of those that run before the others only the ones that have not ended.

    Their `waiting` says PodInitializing until it is their turn, which the pod's phase says already.
    """
    first = pod["status"].get("initContainerStatuses") or []
    return [*(one for one in first if not one.get("ready")), *(pod["status"].get("containerStatuses") or [])]


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
    wanted = f"an image of {expected.image_prefix}"
    prefix = f"{expected.image_prefix}/"  # 10.0.0.1:50001 begins with 10.0.0.1:5000, too
    return [Mismatch(pod, wanted, image) for pod, image in sorted(images) if not image.startswith(prefix)]


def wrong_image_versions(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the components whose pods run another version's image than expected."""
    static, plugin = static_by_view(view, expected), expected.plugin
    proxied = expected.leaves.kube_proxy is not None and expected.kube_proxy_mode in PROXY_MODES
    versions: Mapping[str, str] = {
        **{program: f"v{expected.kubernetes}" for program in CONTROL_PLANE_PROGRAMS if static[program]},
        **({"kube-proxy": f"v{expected.kubernetes}"} if proxied or _runs(view, "kube-proxy") else {}),
        "coredns": expected.coredns and f"v{expected.coredns}",
        **({"etcd": expected.etcd_version} if static["etcd"] else {}),
        **{ADD_ONS[name].image: f"v{version}" for name, version in expected.addons.items()},
    }
    if plugin is not None and plugin.image is not None:
        versions = {**versions, plugin.image: expected.plugin_version and f"v{expected.plugin_version}"}
    wanted = {component: version for component, version in versions.items() if version}
    decided = [component for component, version in versions.items() if not version]
    why = "the product decides it, or the cell's variables have none"
    unknown: list[Mismatch] = [unjudged(f"the version of {component}", why) for component in decided]
    if not wanted:
        return together(unknown or [unjudged("versions of images", "no component of a known name runs as a pod")])
    seen: dict[str, set[str]] = {}
    for pod in view.system_pods:
        for container in pod["spec"]["containers"]:
            repository, _, tag = container["image"].rpartition(":")
            seen.setdefault(repository.rpartition("/")[2], set()).add(tag)

    def judge(component: str, tags: set[str]) -> list[Mismatch]:
        # etcd's image has a revision behind its version: 3.6.8-0
        versions = {tag.partition("-")[0] if component == "etcd" else upstream_of(tag) for tag in tags}
        return differs(component, "version", [upstream_of(wanted[component])], sorted(versions))

    return unknown + on_every(tuple(wanted), seen, judge)


def _runs(view: ClusterView, component: str) -> bool:
    images = (c["image"].rpartition(":")[0] for pod in view.system_pods for c in pod["spec"]["containers"])
    return any(image.rpartition("/")[2] == component for image in images)
