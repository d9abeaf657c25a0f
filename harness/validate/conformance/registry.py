"""Which images an OCI registry lacks."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from harness.errors import InfraRetriable
from harness.http_client import NoAnswer, WebRequest, ask

PARALLEL = 4
# Without these a registry answers 404 for an image index or an OCI manifest (distribution specification, "pull").
MANIFEST_TYPES = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


def missing_images(registry: str, images: Iterable[str], seconds: float) -> frozenset[str]:
    """Return those of the images (repository:tag) that the registry (host:port, plain HTTP) does not have.

    Args:
        seconds: how long the registry may take to answer for one image.

    Raises:
        InfraRetriable: the registry does not answer, or answers with an error.
    """
    asked = sorted(set(images))
    with ThreadPoolExecutor(PARALLEL) as pool:
        return frozenset(
            image
            for image, there in zip(asked, pool.map(lambda i: has_image(registry, i, seconds), asked), strict=True)
            if not there
        )


def digests(registry: str, images: Iterable[str], seconds: float) -> dict[str, str]:
    """Return the digests of those of the images that a registry has.

    Raises:
        InfraRetriable: the registry does not answer, or answers with an error.
    """
    asked = sorted(set(images))
    with ThreadPoolExecutor(PARALLEL) as pool:
        pairs = zip(asked, pool.map(lambda image: digest_of(registry, image, seconds), asked), strict=True)
        return {image: digest for image, digest in pairs if digest is not None}


def has_image(registry: str, image: str, seconds: float) -> bool:
    """Tell whether a registry has an image's manifest."""
    return digest_of(registry, image, seconds) is not None


def digest_of(registry: str, image: str, seconds: float) -> str | None:
    """Return the digest of an image's manifest, as the registry says it; None where it has no such image."""
    repository, _, tag = image.rpartition(":")
    url = f"http://{registry}/v2/{repository}/manifests/{tag}"
    try:
        reply = ask(WebRequest(url, "HEAD", headers={"Accept": MANIFEST_TYPES}, direct=True), seconds)
    except NoAnswer as error:
        raise InfraRetriable(
            f"the image registry {registry} does not answer: {error}",
            hint="does the mirror run? `vmatrix infra status`",
        ) from error
    if not reply.ok and reply.status != HTTPStatus.NOT_FOUND:
        raise InfraRetriable(f"the image registry {registry} answers {reply.status} for {image}")
    return reply.headers.get("Docker-Content-Digest", "") if reply.ok else None
