"""Required artifacts of a Kubernetes version, a cell or a product: one complete list, obtained before anything starts.

What vmatrix's own checks need is in it, too: upstream's tests, and the images that they and the probes run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.artifacts.catalogue import IMAGE_PREFIX, KUBERNETES, Catalogue
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.spec.models import ProductArtifacts
from harness.spec.models.product import OwnImage, RenamedImage

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
    merged = {version_variable("etcd"): catalogue.release(version).etcd} | dict(variables or {})
    programs = [Ref(name, version) for name in (*GUEST, *TESTING)]
    asked = OTHER_RUNTIMES.get(str(merged.get(RUNTIME_NAME)), RUNTIME[:1])
    runtime = [_chosen(catalogue, name, merged) for name in (*asked, *RUNTIME[1:], "etcd", "etcdutl")]
    return (*programs, *runtime, *images(catalogue, version, merged))


def for_cell(catalogue: Catalogue, variables: Mapping[str, Any], *, infra_version: str = "") -> tuple[Ref, ...]:
    """Return all that one cell needs, by its playbook variables, on an embedded infra cluster or (when `infra_version`
    is empty) on any other."""
    version = str(variables["cluster_kubernetes_version"])
    below = host(catalogue, infra_version) if infra_version else ()
    return tuple(dict.fromkeys((*below, *for_kubernetes(catalogue, version, variables))))


def images(catalogue: Catalogue, version: str, variables: Mapping[str, Any] | None = None) -> tuple[Ref, ...]:
    """Return the images that guests of a Kubernetes version pull: its own, its companions', the network plugin's when
    that has one, and those of the add-ons that the variables name."""
    chosen = variables or {}
    companions = catalogue.release(version).images
    tags = dict.fromkeys(KUBERNETES_IMAGES, f"v{version}") | {
        name: _tag(catalogue, name, tag, str(chosen.get(version_variable(name)) or ""))
        for name, tag in companions.items()
    }
    plugin = chosen.get(PLUGIN) or next(iter(catalogue.network_plugins), "")
    if plugin in catalogue.network_plugins:
        tags[plugin] = f"v{_chosen(catalogue, plugin, chosen).version}"
    tags |= {
        name: f"v{chosen[version_variable(name)]}" for name in catalogue.add_ons if chosen.get(version_variable(name))
    }
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


def version_variable(name: str) -> str:
    """Return the variable of a cell that names the version of a program or image; without it the newest is taken."""
    return f"cluster_{SAME_VERSION.get(name, name).replace('-', '_')}_version"


def _chosen(catalogue: Catalogue, name: str, variables: Mapping[str, Any]) -> Ref:
    version = str(variables.get(version_variable(name), "") or "")
    return Ref(name, version) if version else newest(catalogue, name)


def _tag(catalogue: Catalogue, name: str, usual: str, version: str) -> str:
    """Return the tag of an image that belongs to a Kubernetes version: its usual one, or that of another version."""
    known = catalogue.tags(name) if version else {}
    tags = [tag for tag, inside in known.items() if version in (tag, tag.removeprefix("v"), inside)]
    if not version or usual in tags:
        return usual
    return tags[0] if tags else f"{'v' if usual.startswith('v') else ''}{version}"


VERSION = "cluster_kubernetes_version"
CLIENT = "kubectl"  # with which upstream's tests are run


def programs(catalogue: Catalogue, asked: ProductArtifacts | None, variables: Mapping[str, Any]) -> tuple[Ref, ...]:
    """Return the programs that a phase needs, by its variables.

    Raises:
        BadInput: the catalogue has no such program, or not in that version.
    """
    if asked is None:
        _require_known(catalogue, str(variables[VERSION]))
        everything = for_kubernetes(catalogue, str(variables[VERSION]), variables)
        return tuple(ref for ref in everything if not ref.name.startswith(IMAGE_PREFIX))
    served = [program(catalogue, e if isinstance(e, str) else e.artifact, variables) for e in asked.serve]
    version = tested(catalogue, str(variables[VERSION]))
    own = [Ref(name, version) for name in (*TESTING, CLIENT)] if version else []
    return tuple(dict.fromkeys((*own, *served)))


def product_images(
    catalogue: Catalogue, asked: ProductArtifacts | None, variables: Mapping[str, Any], probes: Iterable[str] = ()
) -> tuple[Ref, ...]:
    """Return the images that a phase needs, by its variables.

    Args:
        probes: what the checks run, as repository:tag; those that the catalogue does not have are left out.

    Raises:
        BadInput: the catalogue has no such image, or not with that tag.
    """
    if asked is None:
        return images(catalogue, str(variables[VERSION]), variables)
    words = [e if isinstance(e, str) else e.artifact for e in asked.images if not isinstance(e, OwnImage)]
    wanted = [image(catalogue, word, variables) for word in words]
    return tuple(dict.fromkeys((*wanted, *(ref for each in probes if (ref := _known(catalogue, each)) is not None))))


def renamed(catalogue: Catalogue, asked: ProductArtifacts | None, variables: Mapping[str, Any]) -> dict[str, Ref]:
    """Return what the registry has by another name, too: repository:tag -> the image."""
    names = {}
    for entry in asked.images if asked is not None else ():
        if isinstance(entry, RenamedImage):
            ref = image(catalogue, entry.artifact, variables)
            tagged = ":" in entry.as_.rpartition("/")[2]
            names[entry.as_ if tagged else f"{entry.as_}:{ref.version}"] = ref
    return names


def program(catalogue: Catalogue, word: str, variables: Mapping[str, Any]) -> Ref:
    """Return a program that is asked for as NAME or NAME@VERSION. Raises BadInput when there is none."""
    ref = _named(catalogue, word, variables)
    catalogue.require(ref.name, ref.version)
    return ref


def _named(catalogue: Catalogue, word: str, variables: Mapping[str, Any]) -> Ref:
    """Return what is asked for as NAME or NAME@VERSION, in whatever version. Raises BadInput without such a program."""
    name, _, version = word.partition("@")
    known = catalogue.program(name)
    release = catalogue.kubernetes.get(str(variables[VERSION]))
    variable = variables.get(version_variable(name))
    if version:
        pass
    elif known.versions == KUBERNETES:
        version = str(variables[VERSION])
    elif variable:
        version = str(variable)
    elif release is not None and SAME_VERSION.get(name, name) == "etcd":
        version = release.etcd
    else:
        version = newest(catalogue, name).version
    return Ref(name, version)


def image(catalogue: Catalogue, word: str, variables: Mapping[str, Any]) -> Ref:
    """Return an image that is asked for as NAME or NAME@TAG. Raises BadInput when there is none."""
    ref = _named_image(catalogue, word, variables)
    catalogue.require(ref.name, ref.version)
    return ref


def _named_image(catalogue: Catalogue, word: str, variables: Mapping[str, Any]) -> Ref:
    """Return what is asked for as NAME or NAME@TAG, with whatever tag. Raises BadInput without such an image."""
    repository, _, tag = word.removeprefix(IMAGE_PREFIX).partition("@")
    known = catalogue.image(repository)
    release = catalogue.kubernetes.get(str(variables[VERSION]))
    variable = variables.get(version_variable(repository))
    if tag:
        pass
    elif known.tags == KUBERNETES:
        tag = f"v{variables[VERSION]}"
    elif release is not None and repository in release.images:
        tag = release.images[repository]
    elif variable:
        tag = f"v{variable}"
    name = f"{IMAGE_PREFIX}{repository}"
    return Ref(name, tag) if tag else newest(catalogue, name)


@dataclass(frozen=True)
class Unprovided:
    """A version that a phase needs and nothing provides, and what asks for it.

    variable: that names the version.  entry: of product.yml, where that names it.
    """

    ref: Ref
    variable: str = ""
    entry: str = ""


def unprovided(
    catalogue: Catalogue, asked: ProductArtifacts | None, variables: Mapping[str, Any]
) -> tuple[Unprovided, ...]:
    """Return what a phase needs, by its variables, in versions that the catalogue does not have."""
    if asked is None:
        version = str(variables[VERSION])
        if version not in catalogue.kubernetes:
            return (Unprovided(Ref(KUBERNETES, version), VERSION),)
        refs = [(ref, "") for ref in for_kubernetes(catalogue, version, variables)]
    else:
        words = [e if isinstance(e, str) else e.artifact for e in asked.serve]
        refs = [(_named(catalogue, word, variables), word) for word in words if catalogue.has(word)]
        words = [e if isinstance(e, str) else e.artifact for e in asked.images if not isinstance(e, OwnImage)]
        prefixed = [(f"{IMAGE_PREFIX}{word.removeprefix(IMAGE_PREFIX)}", word) for word in words]
        refs += [(_named_image(catalogue, name, variables), word) for name, word in prefixed if catalogue.has(name)]
    return tuple(
        Unprovided(ref, *_asks(ref.name, word, variables))
        for ref, word in refs
        if catalogue.has(ref.name) and ref.version not in catalogue.versions(ref.name)
    )


def _asks(name: str, word: str, variables: Mapping[str, Any]) -> tuple[str, str]:
    """Return the variable that asks for a version, or else the word of product.yml."""
    variable = version_variable(name.removeprefix(IMAGE_PREFIX))
    return ("", word) if "@" in word else (variable if variables.get(variable) else VERSION, "")


def tested(catalogue: Catalogue, version: str) -> str:
    """Return the release whose upstream tests fit a Kubernetes version: itself, or the newest of its minor; else ""."""
    if version in catalogue.kubernetes:
        return version
    minor = version.rpartition(".")[0]
    return next((known for known in catalogue.kubernetes if known.rpartition(".")[0] == minor), "")


def _require_known(catalogue: Catalogue, version: str) -> None:
    if version not in catalogue.kubernetes:
        raise BadInput(
            f"Kubernetes {version} is not in the catalogue (known: {', '.join(catalogue.kubernetes)})",
            hint="if the product fetches it by itself, write `artifacts: {}` in product.yml (docs/artifacts.md)",
        )


def _known(catalogue: Catalogue, image: str) -> Ref | None:
    repository, _, tag = image.rpartition(":")
    known = repository in catalogue.images and tag in catalogue.tags(repository)
    return Ref(f"{IMAGE_PREFIX}{repository}", tag) if known else None
