"""Required artifacts of a Kubernetes version, or of a cell: one complete list, obtained before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.artifacts.catalogue import IMAGE_PREFIX, Catalogue
from harness.artifacts.recipe import Ref
from harness.errors import BadInput

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
GUEST = ("kubeadm", "kubelet", "kubectl")
TESTING = ("e2e.test", "ginkgo")
CHECKING = (*TESTING, "kubectl")  # run where the checks run
RUNTIME = ("containerd", "runc", "cni-plugins")
OTHER_RUNTIMES = {"crio": ("crio", "crictl")}  # instead of containerd, in cells that ask for one
SERVING = ("crane", "registry")
BUSYBOX = "e2e-test-images/busybox"
PLUGIN = "cluster_network_plugin"
RUNTIME_NAME = "cluster_container_runtime"
KUBERNETES_IMAGES = (*CONTROL_PLANE, "kube-proxy")

SAME_VERSION = {"etcdutl": "etcd"}  # programs whose version another one's variable names


def host(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return what the embedded infra cluster's own control plane and its mirror run from."""
    etcd = Ref("etcd", catalogue.release(version).etcd)
    serving = tuple(newest(catalogue, name) for name in SERVING)
    return (*(Ref(name, version) for name in (*CONTROL_PLANE, "kubectl")), etcd, *serving)


def pods(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return what the machine runs from that runs the embedded infra cluster's own pods: programs, then images."""
    runtime = tuple(newest(catalogue, name) for name in RUNTIME)
    pause = Ref(f"{IMAGE_PREFIX}pause", str(catalogue.release(version).images["pause"]))
    storage = tuple(newest(catalogue, IMAGE_PREFIX + name) for name in ("local-path-provisioner", BUSYBOX))
    return (*runtime, Ref("kubelet", version), Ref("kube-proxy", version), pause, *storage)


def for_kubernetes(catalogue: Catalogue, version: str, variables: Mapping[str, Any] | None = None) -> tuple[Ref, ...]:
    """Return all that guests of a Kubernetes version need: programs, images, the tests of that version.

    Args:
        variables: a cell's playbook variables, where they name versions; the catalogue decides the rest.

    Raises:
        BadInput: the version is not in the catalogue.
    """
    given = {variable("etcd"): catalogue.release(version).etcd} | dict(variables or {})
    programs = [Ref(name, version) for name in (*GUEST, *TESTING)]
    asked = OTHER_RUNTIMES.get(str(given.get(RUNTIME_NAME)), RUNTIME[:1])
    runtime = [_chosen(catalogue, name, given) for name in (*asked, *RUNTIME[1:], "etcd", "etcdutl")]
    return (*programs, *runtime, *images(catalogue, version, given))


def for_cell(catalogue: Catalogue, variables: Mapping[str, Any], *, infra_version: str = "") -> tuple[Ref, ...]:
    """Return all that one cell needs, by its playbook variables, on an embedded infra cluster or (when `infra_version`
    is empty) on any other."""
    version = str(variables["cluster_kubernetes_version"])
    below = host(catalogue, infra_version) if infra_version else ()
    return tuple(dict.fromkeys((*below, *for_kubernetes(catalogue, version, variables))))


def images(catalogue: Catalogue, version: str, variables: Mapping[str, Any] | None = None) -> tuple[Ref, ...]:
    """Return the images that guests of a Kubernetes version pull: its own, its companions', the network plugin's when
    that has one, and those of the add-ons that the variables name."""
    given = variables or {}
    tags = dict.fromkeys(KUBERNETES_IMAGES, f"v{version}") | catalogue.release(version).images
    plugin = given.get(PLUGIN) or next(iter(catalogue.network_plugins), "")
    if plugin in catalogue.network_plugins:
        tags[plugin] = f"v{_chosen(catalogue, plugin, given).version}"
    tags |= {name: f"v{given[variable(name)]}" for name in catalogue.add_ons if given.get(variable(name))}
    return tuple(Ref(IMAGE_PREFIX + name, tag) for name, tag in tags.items())


def add_ons(catalogue: Catalogue) -> tuple[Ref, ...]:
    """Return the newest image of every add-on."""
    return tuple(newest(catalogue, IMAGE_PREFIX + name) for name in catalogue.add_ons)


def newest(catalogue: Catalogue, name: str) -> Ref:
    """Return the version of a program or image that the catalogue names first."""
    return Ref(name, catalogue.versions(name)[0])


def parse(catalogue: Catalogue, words: Sequence[str]) -> tuple[Ref, ...]:
    """Read `NAME` or `NAME@VERSION`; a bare name means every version of it. Unknown ones raise BadInput."""
    refs: list[Ref] = []
    for word in words:
        name, at, version = word.partition("@")
        every = catalogue.versions(name)
        if at and not version:
            raise BadInput(f"{word} names no version", hint=f"leave out the @ for every version: {name}")
        if version:
            catalogue.require(name, version)
        refs += [Ref(name, each) for each in ([version] if version else every)]
    return tuple(dict.fromkeys(refs))


def variable(name: str) -> str:
    """Return the variable of a cell that names the version of a program or image; without it the newest is taken."""
    return f"cluster_{SAME_VERSION.get(name, name).replace('-', '_')}_version"


def _chosen(catalogue: Catalogue, name: str, variables: Mapping[str, Any]) -> Ref:
    version = str(variables.get(variable(name), "") or "")
    return Ref(name, version) if version else newest(catalogue, name)
