"""Downloads of releases' manifests: each at most once, whole, and with the checksum that was pinned."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from harness import paths
from harness.conversation import opened, within
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.files import write_atomically
from harness.infra.kind.releases import Manifest, load

READ_SECONDS = 60.0  # without a single byte
WHOLE_SECONDS = 300.0  # half a MiB, over the slowest line that anybody would pull images over
LARGEST = 64 << 20  # bytes; KubeVirt's operator manifest has 0.5 MiB


def pin(file: Path) -> Iterator[tuple[Manifest, str]]:
    """Download every manifest without a checksum, record its checksum in the file, and yield both.

    Raises:
        BadInput: the file is wrong.  InfraError: a manifest cannot be downloaded.
    """
    releases = load(file)
    for manifest in (*releases.kubevirt.manifests, *releases.cdi.manifests):
        if manifest.sha256:
            continue
        found = hashlib.sha256(_download(manifest.url)).hexdigest()
        text = file.read_text(encoding="utf-8")
        line = rf'(\burl: {re.escape(manifest.url)}, sha256: )""'
        changed, count = re.subn(line, rf'\g<1>"{found}"', text)
        if count != 1:
            raise BadInput(
                f"{file} names {manifest.url} in a form that cannot be pinned",
                hint=f'write it as {{url: {manifest.url}, sha256: ""}} on one line',
            )
        write_atomically(file, changed)
        yield manifest, found


def obtain(manifest: Manifest, cache: Path | None = None) -> str:
    """Return a manifest's text, downloaded at most once, whole and with its checksum.

    Raises:
        InfraError: it cannot be downloaded, or has another checksum.
    """
    folder = cache if cache is not None else paths.cache_dir() / "releases"
    kept = folder / manifest.sha256
    if kept.is_file() and hashlib.sha256(kept.read_bytes()).hexdigest() == manifest.sha256:
        return kept.read_text(encoding="utf-8")
    content = _download(manifest.url)
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.sha256:
        raise InfraError(
            f"{manifest.url} has the wrong checksum: expected sha256 {manifest.sha256}, got {found}",
            hint="nothing was installed; check with the project why the release changed before you pin it again",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, content)
    return content.decode("utf-8", errors="replace")


def _download(url: str) -> bytes:
    try:
        request = urllib.request.Request(url)  # noqa: S310 - http(s) only, by the model
        with within(WHOLE_SECONDS), opened(request, READ_SECONDS) as answer:
            content: bytes = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        with error:
            kind = InfraRetriable if error.code >= http.client.INTERNAL_SERVER_ERROR else InfraError
            raise kind(f"{url} answered {error.code} {error.reason}", hint="check the URL of the release") from error
    except (OSError, http.client.HTTPException) as error:
        hint = "check the internet connection; without one, use --kubevirt embedded"
        raise InfraRetriable(f"{url} could not be downloaded: {getattr(error, 'reason', error)}", hint=hint) from error
    if len(content) > LARGEST:
        raise InfraError(f"{url} is larger than {LARGEST >> 20} MiB, too large for a manifest")
    return content
