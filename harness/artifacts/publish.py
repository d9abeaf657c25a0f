"""Images into a registry: only those that it does not have yet, by digest."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from dataclasses import dataclass

from harness import proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.images import MANIFEST
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import FILES, Artifact, Store
from harness.errors import InfraError

ANSWER_SECONDS = 10.0  # of a registry on this host


@dataclass(frozen=True)
class Published:
    """An image in a registry: its reference there, its digest, and whether it had to be pushed."""

    reference: str
    digest: str
    pushed: bool


def publish_images(
    images: Sequence[Ref], registry: str, *, store: Store, progress: Progress = silent
) -> tuple[Published, ...]:
    """Push images.

    Args:
        registry: host:port, spoken to in plain HTTP.

    Raises:
        BadInput: an image is not in the catalogue.  InfraError: the registry does not answer or refuses.
    """
    return tuple(_publish(store, artifact, registry) for artifact in store.ensure(images, progress).values())


def _publish(store: Store, artifact: Artifact, registry: str) -> Published:
    repository = artifact.ref.name.removeprefix(IMAGE_PREFIX)
    digest = str(artifact.facts["digest"])
    reference = f"{registry}/{repository}:{artifact.ref.version}"
    if digest_in(registry, repository, artifact.ref.version) == digest:
        return Published(reference, digest, pushed=False)
    crane_ref = refs.newest(store.catalogue, "crane")
    crane = store.obtain(crane_ref.name, crane_ref.version).file("crane")
    proc.run([crane, "push", "--insecure", artifact.directory / FILES, reference], timeout=store.limits.push)
    found = digest_in(registry, repository, artifact.ref.version)
    if found != digest:
        raise InfraError(f"{reference} has digest {found or 'none'} after a push of {digest}")
    return Published(reference, digest, pushed=True)


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
