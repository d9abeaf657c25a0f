"""Admission of DataVolumes: `datavolume-mutate` (may this user clone?) and `datavolume-validate`.

The real mutator also adds an annotation with a signed clone token for cdi-controller; the embedded controllers
trust the API server instead, so it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.embedded.admission.instance_spec import quantity
from harness.kube.admission import ALLOWED, BAD_REQUEST, DUPLICATE, UNPROCESSABLE, AdmissionResponse, StatusCause
from harness.kube.client import Json

HASH_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
URL_SOURCES = (("http", "HTTP"), ("s3", "S3"), ("gcs", "GCS"), ("imageio", "Imageio"), ("vddk", "VDDK"))
POPULATED_FOR = "cdi.kubevirt.io/storage.populatedFor"
ADOPTION = "cdi.kubevirt.io/allowClaimAdoption"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
LEAST_BYTES = 1024 * 1024
# (namespace, name) -> the object, None when there is none.
Lookup = Callable[[str, str], Json | None]
# (user info of the request, namespace) -> may that user clone from it?
MayClone = Callable[[Json, str], bool]


@dataclass(frozen=True)
class Neighbours:
    """What a judgement needs to know of the cluster."""

    data_source: Lookup
    claim: Lookup
    may_clone: MayClone


def cdi_refusal(causes: Sequence[StatusCause]) -> AdmissionResponse:
    """Refuse as cdi-apiserver does: with a blank before each cause, and without a reason."""
    message = "".join(f" {cause.message}" for cause in causes)
    return AdmissionResponse(False, code=UNPROCESSABLE, message=message, causes=tuple(causes))


def authorize_datavolume(request: Json, neighbours: Neighbours) -> AdmissionResponse:
    """Answer for the mutator: refuse a clone from a namespace in which the user may not."""
    datavolume = request["object"]
    if request["operation"] != "CREATE" or datavolume["metadata"].get("deletionTimestamp"):
        return ALLOWED
    spec = datavolume.get("spec") or {}
    reference, source = spec.get("sourceRef"), spec.get("source") or {}
    origin: Json | None = source.get("pvc") or source.get("snapshot")
    if reference and reference.get("kind") == "DataSource" and spec.get("source") is None:
        name = reference.get("name", "")
        found = neighbours.data_source(reference.get("namespace") or request["namespace"], name)
        if found is None:
            message = f'datasources.cdi.kubevirt.io "{name}" not found'
            return AdmissionResponse(False, code=BAD_REQUEST, message=message)
        referred = (found.get("spec") or {}).get("source") or {}
        origin = referred.get("pvc") or referred.get("snapshot")
    if not origin:
        return ALLOWED
    namespace = origin.get("namespace") or request["namespace"]
    if namespace == request["namespace"] or neighbours.may_clone(request["userInfo"], namespace):
        return ALLOWED
    user = request["userInfo"]["username"]
    message = f"User {user} has insufficient permissions in clone source namespace {namespace}"
    return cdi_refusal([StatusCause(message, "spec.source.PVC.namespace")])


def validate_datavolume(request: Json, neighbours: Neighbours) -> AdmissionResponse:
    """Answer for the validator."""
    datavolume = request["object"]
    if datavolume["metadata"].get("deletionTimestamp"):
        return ALLOWED
    if request["operation"] == "UPDATE":
        if datavolume.get("spec") == request["oldObject"].get("spec"):
            return ALLOWED
        return cdi_refusal([StatusCause("Cannot update DataVolume Spec", "DataVolume.Spec", DUPLICATE)])
    spec = datavolume.get("spec") or {}
    causes = [*_first_of(_existing_claim(request, neighbours), _storage(spec), source_causes(spec))]
    return cdi_refusal(causes) if causes else ALLOWED


def _existing_claim(request: Json, neighbours: Neighbours) -> Iterator[StatusCause]:
    """Judge that no foreign claim of the volume's name is there already."""
    metadata, namespace = request["object"]["metadata"], request["namespace"]
    name = metadata.get("name", "")
    claim = neighbours.claim(namespace, name) if name else None
    if claim is None or (metadata.get("annotations") or {}).get(ADOPTION) == "true":
        return
    annotations = claim["metadata"].get("annotations") or {}
    owners = [o for o in claim["metadata"].get("ownerReferences") or [] if o.get("controller")]
    own = any(owner["kind"] == "DataVolume" and owner["name"] == name for owner in owners)
    if annotations.get(POPULATED_FOR) != name and not own:
        message = f"Destination PVC {namespace}/{name} already exists"
        yield StatusCause(message, "DataVolume.Name", DUPLICATE)


def _first_of(*judgements: Iterator[StatusCause]) -> Iterator[StatusCause]:
    """Return the causes of the first judgement that has any."""
    for judgement in judgements:
        causes = list(judgement)
        if causes:
            yield from causes
            return


def _storage(spec: Json) -> Iterator[StatusCause]:
    """Judge where the content goes."""
    pvc, storage = spec.get("pvc"), spec.get("storage")
    if pvc is None and storage is None:
        yield StatusCause("Missing Data volume PVC", "spec.PVC")
    elif pvc is not None and storage is not None:
        message = "Duplicate storage definition, both target storage and target pvc defined"
        yield StatusCause(message, "spec.PVC.Storage")
    elif pvc is not None:
        yield from _first_of(_size(pvc, "PVC"), _claim_modes(pvc.get("accessModes") or []))
    elif storage is not None:
        source = spec.get("source") or {}
        may_copy_size = bool(source.get("pvc") or source.get("snapshot") or spec.get("sourceRef"))
        yield from _first_of(
            _size(storage, "Storage", may_lack=may_copy_size), _modes(storage.get("accessModes") or [])
        )


def _size(target: Json, name: str, *, may_lack: bool = False) -> Iterator[StatusCause]:
    where = f"spec.{name}.resources.requests.size"
    size = ((target.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        if not may_lack:
            yield StatusCause(f"{name} size is missing", where)
    elif quantity(size) <= 0:
        yield StatusCause(f"{name} size can't be equal or less than zero", where)
    elif quantity(size) < LEAST_BYTES:
        yield StatusCause(f"{name} size should be at least 1MiB", where)


def _claim_modes(modes: list[str]) -> Iterator[StatusCause]:
    where = "spec.PVC.accessModes"
    if not modes:
        yield StatusCause("Required value: at least 1 access mode is required", where)
    elif len(modes) > 1:
        yield StatusCause("PVC multiple accessModes", where)
    else:
        yield from _modes(modes)


def _modes(modes: list[str]) -> Iterator[StatusCause]:
    for mode in modes:
        if mode not in ACCESS_MODES:
            supported = ", ".join(f'"{known}"' for known in ACCESS_MODES)
            yield StatusCause(f'Unsupported value: "{mode}": supported values: {supported}', "spec.PVC.accessModes")
            return


def source_causes(spec: Json) -> Iterator[StatusCause]:
    """Return the first thing wrong with a DataVolume's source; nothing when it is fine."""
    source, reference = spec.get("source"), spec.get("sourceRef")
    target = spec.get("pvc") or spec.get("storage") or {}
    populated = target.get("dataSource") or target.get("dataSourceRef")
    if (source is None and reference is None and not populated) or (source is not None and reference is not None):
        message = "Data volume should have either Source or SourceRef, or be externally populated"
        yield StatusCause(message, "spec.source")
    elif reference is not None:
        yield from _reference_causes(reference)
    elif source is not None:
        yield from _source_causes(source, spec)


def _reference_causes(reference: Json) -> Iterator[StatusCause]:
    kind = reference.get("kind", "")
    if not kind:
        yield StatusCause("Missing sourceRef kind", "spec.sourceRef.Kind")
    elif kind != "DataSource":
        message = f"Unsupported sourceRef kind {kind}, currently only DataSource is supported"
        yield StatusCause(message, "spec.sourceRef.Kind")
    elif not reference.get("name"):
        yield StatusCause("Missing sourceRef name", "spec.sourceRef.Name")


def _source_causes(source: Json, spec: Json) -> Iterator[StatusCause]:
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
        yield from _checksum_causes(source["http"]["checksum"])
    if source.get("registry") is not None:
        yield from _registry_causes(source["registry"], spec)
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


def _checksum_causes(checksum: str) -> Iterator[StatusCause]:
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


def _registry_causes(registry: Json, spec: Json) -> Iterator[StatusCause]:
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
