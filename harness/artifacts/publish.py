"""Images into a registry of this host: only those that it does not have yet, by digest."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.images import MANIFEST
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import FILES, Artifact, Store
from harness.artifacts.uploads import writable
from harness.errors import InfraError

ANSWER_SECONDS = 10.0  # of a registry on this host


@dataclass(frozen=True)
class Published:
    """An image in a registry: its reference there, its digest, and whether it had to be pushed."""

    reference: str
    digest: str
    pushed: bool


def publish_images(
    images: Sequence[Ref], registry: str, *, root: Path, store: Store, progress: Progress = silent
) -> tuple[Published, ...]:
    """Put images into the storage of a registry that only reads.

    Args:
        registry: host:port, spoken to in plain HTTP.
        root: the folder of its storage.

    Raises:
        BadInput: an image is not in the catalogue.  InfraError: the registry does not answer, or has other storage.
    """
    artifacts = tuple(store.ensure(images, progress).values())
    missing = [a for a in artifacts if digest_in(registry, _repository(a), a.ref.version) != a.facts["digest"]]
    if missing:
        with writable(root, store) as writer:
            for artifact in missing:
                _push(store, artifact, writer)
    for artifact in missing:
        if (found := digest_in(registry, _repository(artifact), artifact.ref.version)) != artifact.facts["digest"]:
            why = f"has digest {found or 'none'} after a push of {artifact.facts['digest']} to {root}"
            raise InfraError(f"{_reference(artifact, registry)} {why}")
    return tuple(Published(_reference(a, registry), str(a.facts["digest"]), pushed=a in missing) for a in artifacts)


def _repository(artifact: Artifact) -> str:
    return artifact.ref.name.removeprefix(IMAGE_PREFIX)


def _reference(artifact: Artifact, registry: str) -> str:
    return f"{registry}/{_repository(artifact)}:{artifact.ref.version}"


def _push(store: Store, artifact: Artifact, registry: str) -> None:
    ref = refs.newest(store.catalogue, "crane")
    crane = store.obtain(ref.name, ref.version).file("crane")
    words = ("push", "--insecure", artifact.directory / FILES, _reference(artifact, registry))
    proc.run([crane, *words], timeout=store.limits.push)


def digest_in(registry: str, repository: str, tag: str) -> str:
    """Return the digest of an image in a registry; empty when it is not there.

    Raises:
        InfraError: the registry does not answer.
    """
    connection = http.client.HTTPConnection(registry, timeout=ANSWER_SECONDS)
    try:
        connection.request("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": MANIFEST})
        answer = connection.getresponse()
        return answer.headers.get("Docker-Content-Digest", "") if answer.status == http.client.OK else ""
    except (OSError, http.client.HTTPException) as error:
        raise InfraError(f"the registry at {registry} does not answer: {error}", hint="vmatrix infra status") from error
    finally:
        connection.close()
