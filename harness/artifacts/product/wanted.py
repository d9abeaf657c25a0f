"""Requested programs and images of a product, in the versions of a cell's phase; all of them where it does not say.

What vmatrix's own checks need is in it, too: upstream's tests, and the images that they and the probes run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX, KUBERNETES, Catalogue
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.spec.models import ProductArtifacts
from harness.spec.models.product import OwnImage, RenamedImage

VERSION = "cluster_kubernetes_version"
CLIENT = "kubectl"  # with which upstream's tests are run


def programs(catalogue: Catalogue, asked: ProductArtifacts | None, given: Mapping[str, Any]) -> tuple[Ref, ...]:
    """Return the programs that a phase needs, by its variables.

    Raises:
        BadInput: the catalogue has no such program, or not in that version.
    """
    if asked is None:
        _require_known(catalogue, str(given[VERSION]))
        everything = refs.for_kubernetes(catalogue, str(given[VERSION]), given)
        return tuple(ref for ref in everything if not ref.name.startswith(IMAGE_PREFIX))
    served = [program(catalogue, e if isinstance(e, str) else e.artifact, given) for e in asked.serve]
    version = tested(catalogue, str(given[VERSION]))
    own = [Ref(name, version) for name in (*refs.TESTING, CLIENT)] if version else []
    return tuple(dict.fromkeys((*own, *served)))


def images(
    catalogue: Catalogue, asked: ProductArtifacts | None, given: Mapping[str, Any], probes: Iterable[str] = ()
) -> tuple[Ref, ...]:
    """Return the images that a phase needs, by its variables.

    Args:
        probes: what the checks run, as repository:tag; those that the catalogue does not have are left out.

    Raises:
        BadInput: the catalogue has no such image, or not with that tag.
    """
    if asked is None:
        return refs.images(catalogue, str(given[VERSION]), given)
    words = [e if isinstance(e, str) else e.artifact for e in asked.images if not isinstance(e, OwnImage)]
    wanted = [image(catalogue, word, given) for word in words]
    return tuple(dict.fromkeys((*wanted, *(ref for each in probes if (ref := _known(catalogue, each)) is not None))))


def renamed(catalogue: Catalogue, asked: ProductArtifacts | None, given: Mapping[str, Any]) -> dict[str, Ref]:
    """Return what the registry has by another name, too: repository:tag -> the image."""
    found = {}
    for entry in asked.images if asked is not None else ():
        if isinstance(entry, RenamedImage):
            ref = image(catalogue, entry.artifact, given)
            tagged = ":" in entry.as_.rpartition("/")[2]
            found[entry.as_ if tagged else f"{entry.as_}:{ref.version}"] = ref
    return found


def program(catalogue: Catalogue, word: str, given: Mapping[str, Any]) -> Ref:
    """Return a program that is asked for as NAME or NAME@VERSION. Raises BadInput when there is none."""
    name, _, version = word.partition("@")
    known = catalogue.program(name)
    release = catalogue.kubernetes.get(str(given[VERSION]))
    variable = given.get(refs.variable(name))
    if version:
        pass
    elif known.versions == KUBERNETES:
        version = str(given[VERSION])
    elif variable:
        version = str(variable)
    elif release is not None and refs.SAME_VERSION.get(name, name) == "etcd":
        version = release.etcd
    else:
        version = refs.newest(catalogue, name).version
    catalogue.require(name, version)
    return Ref(name, version)


def image(catalogue: Catalogue, word: str, given: Mapping[str, Any]) -> Ref:
    """Return an image that is asked for as NAME or NAME@TAG. Raises BadInput when there is none."""
    repository, _, tag = word.removeprefix(IMAGE_PREFIX).partition("@")
    known = catalogue.image(repository)
    release = catalogue.kubernetes.get(str(given[VERSION]))
    variable = given.get(refs.variable(repository))
    if tag:
        pass
    elif known.tags == KUBERNETES:
        tag = f"v{given[VERSION]}"
    elif release is not None and repository in release.images:
        tag = release.images[repository]
    elif variable:
        tag = f"v{variable}"
    name = f"{IMAGE_PREFIX}{repository}"
    found = Ref(name, tag) if tag else refs.newest(catalogue, name)
    catalogue.require(found.name, found.version)
    return found


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
