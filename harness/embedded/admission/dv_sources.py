"""Rules for where a DataVolume's content comes from (cdi-apiserver's validator)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from harness.embedded.admission.response import Json, StatusCause

HASH_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
URL_SOURCES = (("http", "HTTP"), ("s3", "S3"), ("gcs", "GCS"), ("imageio", "Imageio"), ("vddk", "VDDK"))


def source_causes(spec: Json) -> Iterator[StatusCause]:
    """Return the first thing wrong with a DataVolume's source; nothing when it is fine."""
    source, reference = spec.get("source"), spec.get("sourceRef")
    target = spec.get("pvc") or spec.get("storage") or {}
    populated = target.get("dataSource") or target.get("dataSourceRef")
    if (source is None and reference is None and not populated) or (source is not None and reference is not None):
        message = "Data volume should have either Source or SourceRef, or be externally populated"
        yield StatusCause(message, "spec.source")
    elif reference is not None:
        yield from _reference(reference)
    elif source is not None:
        yield from _source(source, spec)


def _reference(reference: Json) -> Iterator[StatusCause]:
    kind = reference.get("kind", "")
    if not kind:
        yield StatusCause("Missing sourceRef kind", "spec.sourceRef.Kind")
    elif kind != "DataSource":
        message = f"Unsupported sourceRef kind {kind}, currently only DataSource is supported"
        yield StatusCause(message, "spec.sourceRef.Kind")
    elif not reference.get("name"):
        yield StatusCause("Missing sourceRef name", "spec.sourceRef.Name")


def _source(source: Json, spec: Json) -> Iterator[StatusCause]:
    if not source:
        yield StatusCause("Missing Data volume source", "spec.source")
        return
    if len(source) > 1:
        yield StatusCause("Multiple Data volume sources", "spec.source")
        return
    for key, label in URL_SOURCES:
        if source.get(key) is not None:
            problem = _url_problem(source[key].get("url", ""))
            if problem:
                yield StatusCause(f"spec.source {problem}", f"spec.source.{label}.url")
                return
    if source.get("blank") is not None and spec.get("contentType") == "archive":
        yield StatusCause("SourceType cannot be blank and the contentType be archive", "spec.contentType")
    if (source.get("http") or {}).get("checksum"):
        yield from _checksum(source["http"]["checksum"])
    if source.get("registry") is not None:
        yield from _registry(source["registry"], spec)
    if source.get("pvc") is not None and not (source["pvc"].get("namespace") and source["pvc"].get("name")):
        yield StatusCause("spec.source.PVC source PVC is not valid", "spec.source.PVC")


def _url_problem(url: str) -> str:
    """Judge a URL as Go's ParseRequestURI does."""
    if not url:
        return "source URL is empty"
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", url)
    try:
        _ = urlsplit(url).port
        parses = (scheme is not None or url.startswith("/")) and not re.search(r"[\x00-\x20\x7f]", url)
    except ValueError:
        parses = False
    if not parses:
        return f"Invalid source URL: {url}"
    if scheme is None or scheme[1].lower() not in {"http", "https", "gs"}:
        return f"Invalid source URL scheme: {url}"
    return ""


def _checksum(checksum: str) -> Iterator[StatusCause]:
    algorithm, colon, digest = checksum.partition(":")
    algorithm = algorithm.lower()
    if not colon:
        problem = f"invalid checksum format: expected 'algorithm:hash', got '{checksum}'"
    elif algorithm not in HASH_LENGTHS:
        problem = f"unsupported hash algorithm '{algorithm}': supported algorithms are: {', '.join(HASH_LENGTHS)}"
    elif len(digest) != (length := HASH_LENGTHS[algorithm]):
        problem = f"invalid {algorithm} hash length: expected {length} hex characters, got {len(digest)}"
    elif not re.fullmatch(r"[0-9a-fA-F]+", digest):
        problem = f"invalid {algorithm} hash: must be a hexadecimal string"
    else:
        return
    yield StatusCause(f"Invalid checksum format: {problem}", "spec.source.HTTP.checksum")


def _registry(registry: Json, spec: Json) -> Iterator[StatusCause]:
    if spec.get("contentType") not in {None, "", "kubevirt"}:
        yield StatusCause("ContentType must be kubevirt when Source is Registry", "spec.contentType")
        return
    url, stream = registry.get("url"), registry.get("imageStream")
    if bool(url) == bool(stream):
        yield StatusCause("source registry should have either URL or ImageStream", "spec.source.Registry")
        return
    if url and url.partition(":")[0] not in {"docker", "oci-archive"}:
        yield StatusCause(f"Illegal registry source URL scheme {url}", "spec.source.Registry.URL")
        return
    method = registry.get("pullMethod", "")
    if method not in {"", "pod", "node"}:
        message = f'ImportMethod {method} is neither pod, node or ""'
        yield StatusCause(message, "spec.source.Registry.importMethod")
