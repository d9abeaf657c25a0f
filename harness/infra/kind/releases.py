"""Releases of KubeVirt and CDI: deploy/kind/releases.yml, with the checksum of every manifest, and their downloads.

A checksum is recorded once, by `vmatrix infra pin` or by the first use of a release, and committed; from then on every
download has to have it. Nothing is ever installed that has none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BeforeValidator, StringConstraints

from harness import paths
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.files import write_atomically
from harness.http_client import NoAnswer, TooMuch, WebRequest, ask
from harness.paths import enclosing_project, named_project, packaged_dir, project_dir
from harness.spec import lines
from harness.spec.base import Model
from harness.spec.loader import load_file
from harness.spec.project import write_in_project
from harness.system import lexists

PIN = "vmatrix infra pin"
FILE = Path("deploy", "kind", "releases.yml")


_MARKDOWN = re.compile(r"^\[[^]]*\]\((?P<url>[^()\s]+)(?:\s+[\"'][^\"']*[\"'])?\)$")
QUOTES = ('"', "'", "`")


def plain_url(text: Any) -> Any:
    """Return a URL without what it was wrapped in where it was copied: quotes, <>, a link of Markdown, backslashes."""
    while isinstance(text, str):
        inner, link = text.strip(), _MARKDOWN.match(text.strip())
        if link:
            inner = link["url"]
        elif len(inner) > 1 and ((inner[0] == inner[-1] and inner[0] in QUOTES) or (inner[0], inner[-1]) == ("<", ">")):
            inner = inner[1:-1]
        inner = re.sub(r"\\(?=\W)", "", inner)  # a shell needs them before ? and &
        if inner == text:
            break
        text = inner
    return text


def _checksum(value: Any) -> Any:
    return "" if value is None else value


class Manifest(Model):
    """One file of a release; `sha256` is empty until it is pinned."""

    url: Annotated[str, BeforeValidator(plain_url), StringConstraints(pattern=r"^https?://\S+$")]
    sha256: Annotated[str, BeforeValidator(_checksum), StringConstraints(pattern=r"^([0-9a-f]{64})?$")] = ""

    @property
    def name(self) -> str:
        """Return the file's name."""
        return PurePosixPath(urlsplit(self.url).path).name


class Release(Model):
    """One project's release: its operator, and the custom resource that makes the operator deploy."""

    version: str
    operator: Manifest
    resource: Manifest

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """Return its files."""
        return (self.operator, self.resource)


class ReleasesFile(Model):
    """deploy/kind/releases.yml."""

    kubevirt: Release
    cdi: Release


@dataclass(frozen=True)
class Releases:
    """The file as it was read, and what its lines are."""

    file: Path
    kubevirt: Release
    cdi: Release
    document: lines.Document

    def missing(self) -> list[tuple[tuple[str, str], Manifest]]:
        """Return the manifests without a checksum, and where they stand."""
        return [
            ((project, part), manifest)
            for project, release in (("kubevirt", self.kubevirt), ("cdi", self.cdi))
            for part, manifest in (("operator", release.operator), ("resource", release.resource))
            if not manifest.sha256
        ]

    def unpinned(self) -> list[lines.Problem]:
        """Return the manifests without a checksum, by line."""
        return [self.document.problem(at, f"{manifest.name} has no sha256") for at, manifest in self.missing()]


def default_file() -> Path:
    """Return the project's file, outside of a project this host's, or else the packaged one."""
    own = first_file()
    return own if lexists(own) else packaged_dir() / FILE


def first_file() -> Path:
    """Return the file that the first use of a release is recorded in: the project's, or outside of one this host's."""
    project = named_project() or enclosing_project()
    return project / FILE if project is not None else host_file()


def host_file() -> Path:
    """Return this host's file, for instances that are made outside of a project."""
    return paths.state_dir() / FILE.name


def own_file() -> Path:
    """Return the project's file, to be written. Raises BadInput when it has none: nothing is written to the package."""
    file = project_dir() / FILE
    if not file.is_file():
        raise BadInput(
            f"the project has no {FILE}",
            hint=f"copy {packaged_dir() / FILE} to {file}, or name another with --releases",
        )
    return file


def load(file: Path) -> Releases:
    """Read the releases. Raises BadInput with every mistake and its line."""
    parsed, document = load_file(file, ReleasesFile)
    return Releases(file, parsed.kubevirt, parsed.cdi, document)


def require_pinned(releases: Releases) -> None:
    """Refuse releases of which a manifest has no checksum.

    Raises:
        BadInput: with the lines, and the command that records them.
    """
    missing = releases.unpinned()
    if missing:
        raise BadInput(
            f"{missing[0]}" + (f", and {len(missing) - 1} more" if len(missing) > 1 else ""),
            hint=f"run {PIN}, compare the checksums with what the projects publish, then commit the file",
            detail="\n".join(map(str, missing)),
            paths=[releases.file],
        )


READ_SECONDS = 60.0  # without a single byte
WHOLE_SECONDS = 300.0  # half a MiB, over the slowest line that anybody would pull images over
LARGEST = 64 << 20  # bytes; KubeVirt's operator manifest has 0.5 MiB


def pin(file: Path) -> Iterator[tuple[Manifest, str]]:
    """Download every manifest without a checksum, record its checksum in the file, and yield both.

    Raises:
        BadInput: the file is wrong.  InfraError: a manifest cannot be downloaded.
    """
    while missing := load(file).missing():
        at, manifest = missing[0]
        digest = hashlib.sha256(_download(manifest.url)).hexdigest()
        before = file.read_bytes()
        write_atomically(file, with_checksum(before.decode("utf-8"), at, digest).encode())
        try:
            written = at not in dict(load(file).missing())
        except BadInput:
            written = False
        if not written:
            write_atomically(file, before)
            raise BadInput(
                f"{file}: {'.'.join(at)} is written in a form that cannot be pinned",
                hint=f'write it as {{url: {manifest.url}, sha256: ""}} on one line',
            )
        yield manifest, digest


def with_checksum(text: str, at: tuple[str, str], checksum: str) -> str:
    """Return a releases file with the checksum of one manifest; all else of the text stays, comments too.

    Args:
        at: the project and the part, such as ("kubevirt", "operator").
    """
    mapping: Any = yaml.compose(text, Loader=yaml.SafeLoader)  # its marks count characters
    for key in at:
        mapping = _values(mapping)[key][1]
    values = _values(mapping)
    if "sha256" in values:
        node = values["sha256"][1]
        empty = node.start_mark.index == node.end_mark.index
        return f'{text[: node.start_mark.index]}{" " * empty}"{checksum}"{text[node.end_mark.index :]}'
    key, url = values["url"]
    if mapping.flow_style:
        return f'{text[: url.end_mark.index]}, sha256: "{checksum}"{text[url.end_mark.index :]}'
    start = text.rindex("\n", 0, key.start_mark.index) + 1
    return f'{text[:start]}{" " * key.start_mark.column}sha256: "{checksum}"\n{text[start:]}'


def _values(mapping: Any) -> dict[str, tuple[Any, Any]]:
    """Return the nodes of a mapping's keys and values, by the keys."""
    return {key.value: (key, value) for key, value in mapping.value}


def pinned(file: Path | None, say: Callable[[str], None]) -> Releases:
    """Return releases that are pinned; those of a first use are pinned by it.

    Whoever uses a release for the first time has no earlier download to compare with. So what is downloaded then is
    recorded in the project, or outside of one on this host, and every later download has to be the same.

    Args:
        file: of the setting `releases`; None: the project's, this host's or the packaged one.
        say: told what was pinned, and where.

    Raises:
        BadInput: the file is wrong, or cannot be written.  InfraError: a manifest cannot be downloaded.
    """
    used = file or default_file()
    if not load(used).missing():
        return load(used)
    if used == packaged_dir() / FILE:
        text, used = used.read_text(encoding="utf-8"), first_file()
        if used == host_file():
            used.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(used, text)
        else:
            write_in_project(used, text)
    for manifest, checksum in pin(used):
        say(f"first use of {manifest.url}: its sha256 is {checksum}")
    say(f"the checksums are in {used} and are verified from now on; compare them with what the projects publish")
    return load(used)


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
    digest = hashlib.sha256(content).hexdigest()
    if digest != manifest.sha256:
        raise InfraError(
            f"{manifest.url} has the wrong checksum: expected sha256 {manifest.sha256}, got {digest}",
            hint="nothing was installed; check with the project why the release changed before you pin it again",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, content)
    return content.decode("utf-8", errors="replace")


def _download(url: str) -> bytes:
    try:
        reply = ask(WebRequest(url), WHOLE_SECONDS, silence=READ_SECONDS, largest=LARGEST)
    except TooMuch as error:
        raise InfraError(f"{url} is larger than {LARGEST >> 20} MiB, too large for a manifest") from error
    except NoAnswer as error:
        hint = "check the internet connection; without one, use --kubevirt embedded"
        raise InfraRetriable(f"{url} could not be downloaded: {error}", hint=hint) from error
    if not reply.ok:
        kind = InfraRetriable if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR else InfraError
        raise kind(f"{url} answered {reply.status} {reply.reason}", hint="check the URL of the release")
    return reply.content
