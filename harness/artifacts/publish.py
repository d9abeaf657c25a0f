"""Images into a registry of this host: only those that it does not have yet, by digest."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.images import MANIFEST
from harness.artifacts.product.pushed import Upload, crane, pushable
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import Store
from harness.artifacts.uploads import writable
from harness.errors import InfraError

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"  # of an archive that `docker save` wrote
ANSWER_SECONDS = 10.0  # of a registry on this host


@dataclass(frozen=True)
class Published:
    """An image in a registry: its reference there, its digest, and whether it had to be pushed."""

    reference: str
    digest: str
    pushed: bool


def publish_images(
    images: Sequence[Ref],
    registry: str,
    *,
    root: Path,
    store: Store,
    progress: Progress = silent,
    uploads: Sequence[Upload] = (),
) -> tuple[Published, ...]:
    """Put images into the storage of a registry that only reads.

    Args:
        registry: host:port, spoken to in plain HTTP.
        root: the folder of its storage.
        uploads: what a product has pushed besides.

    Raises:
        BadInput: an image is not in the catalogue.  InfraError: the registry does not answer, or has other storage.
    """
    store.ensure(images, progress)
    wanted = (*(Upload(f"{ref.name.removeprefix(IMAGE_PREFIX)}:{ref.version}", ref) for ref in images), *uploads)
    with ExitStack() as open_ones:
        sources = {upload: open_ones.enter_context(pushable(upload, store)) for upload in dict.fromkeys(wanted)}
        missing = [up for up, (_, digest) in sources.items() if digest_in(registry, up.repository, up.tag) != digest]
        if missing:
            with writable(root, store) as writer:
                for upload in missing:
                    _push(store, sources[upload][0], f"{writer}/{upload.name}")
        for upload in missing:
            digest = sources[upload][1]
            if (found := digest_in(registry, upload.repository, upload.tag)) != digest:
                why = f"has digest {found or 'none'} after a push of {digest} to {root}"
                raise InfraError(f"{registry}/{upload.name} {why}")
    return tuple(Published(f"{registry}/{up.name}", digest, up in missing) for up, (_, digest) in sources.items())


def _push(store: Store, source: Path, reference: str) -> None:
    proc.run([crane(store), "push", "--insecure", source, reference], timeout=store.limits.push)


def digest_in(registry: str, repository: str, tag: str) -> str:
    """Return the digest of an image in a registry; empty when it is not there.

    Raises:
        InfraError: the registry does not answer.
    """
    connection = http.client.HTTPConnection(registry, timeout=ANSWER_SECONDS)
    try:
        connection.request("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": f"{MANIFEST}, {DOCKER}"})
        answer = connection.getresponse()
        return answer.headers.get("Docker-Content-Digest", "") if answer.status == http.client.OK else ""
    except (OSError, http.client.HTTPException) as error:
        raise InfraError(f"the registry at {registry} does not answer: {error}", hint="vmatrix infra status") from error
    finally:
        connection.close()
