"""The history as files of a generic package in GitLab's registry: one file for each pipeline, never written twice.

A file is named after its content, so that two who write at once cannot overwrite each other, and the same records
written again are the same file. The package has a version for each month; when a month is old, one file without
details takes the place of its files. Works on GitLab Free with a job's own token.
Source: GitLab documentation, "Packages API" and "GitLab generic packages repository".
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from typing import Any
from urllib.parse import quote, urlencode

from harness.errors import InfraError
from harness.history.lines import History, cut_down, missing, read, united
from harness.history.record import Record, to_line
from harness.http_client import Reply, WebRequest, ask
from harness.until import Deadline, NotYet, TimedOut, until

HTTP_SECONDS = 30.0  # silence of GitLab
WHOLE_SECONDS = 40.0  # one answer as a whole: a file of a pipeline is far below 1 MB
RETRY_SECONDS = 40.0  # policy: how long a command waits for GitLab to answer, or for a package to stay unchanged
PAGE = 100
RECENT_FILES = 10  # a file is a pipeline's: more than decide what a cell takes
ENDING = ".jsonl.gz"
MOMENTARY = frozenset({408, 425, 429, 500, 502, 503, 504})
REFUSED = frozenset({401, 403, 404})
HINT = "enable the package registry (Settings > General) and use a token that may write to it"


@dataclass(frozen=True)
class PackageFile:
    """A file of the package: ids of package and file, version (YYYY.MM), name."""

    package: int
    id: int
    version: str
    name: str


@dataclass(frozen=True)
class PackageStore:
    """A generic package of a project.

    api: GitLab's API, as CI_API_V4_URL has it.  header: JOB-TOKEN or PRIVATE-TOKEN.
    """

    api: str
    project: str
    package: str
    header: str
    token: str = field(repr=False)

    @property
    def name(self) -> str:
        """Return where the history is, for people."""
        return f"package {self.package}"

    def load(self) -> History:
        """Return the history, empty without the package; InfraError when GitLab refuses, TimedOut when it is silent."""

        def whole() -> History | NotYet:
            contents = [(f"{file.version}/{file.name}", self._content(file)) for file in self.files()]
            gone = next((name for name, content in contents if content is None), None)
            if gone is not None:  # a compaction has put another file in its place since the files were listed
                return NotYet(f"{gone} was deleted")
            return read((name, content) for name, content in contents if content is not None)

        return until(
            whole, deadline=Deadline.after(RETRY_SECONDS), what=f"{self.name} to stay unchanged while being read"
        )

    def recent(self) -> bytes:
        """Return the lines of the files that were written last; raises what `load` does."""
        newest = sorted(self.files(), key=lambda file: file.id)[-RECENT_FILES:]
        return b"\n".join(self._content(file) or b"" for file in newest)

    def add(self, records: Iterable[Record]) -> int:
        """Add those records that the package does not have, and return their number; raises what `load` does."""
        months: dict[str, list[Record]] = {}
        for record in records:
            months.setdefault(record.started[:7].replace("-", "."), []).append(record)
        files = self.files() if months else []
        added = 0
        for month, found in months.items():
            known = united(*(self._content(file) or b"" for file in files if file.version == month))
            new = missing(found, known)
            if new:
                first = new[0]
                self._upload(month, first.where.pipeline or first.run, b"".join(map(to_line, new)))
            added += len(new)
        return added

    def compact(self, *, days: float, now: datetime) -> int:
        """Drop the details of the months that ended so many days ago, and return of how many records.

        A month's files go only after the one in their place was read back. Raises what `load` does.
        """
        before = f"{now.astimezone(UTC) - timedelta(days=days):%Y.%m}"
        months = groupby(self.files(), key=lambda file: file.version)
        return sum(self._compact_month(month, list(files), now) for month, files in months if month < before)

    def _compact_month(self, month: str, files: list[PackageFile], now: datetime) -> int:
        contents = [self._content(file) or b"" for file in files]
        after, dropped = cut_down(b"".join(c.rstrip(b"\n") + b"\n" for c in contents), days=0, now=now)
        if not dropped and len(files) == 1:
            return 0
        name = self._upload(month, "compacted", after)
        written = next((f for f in self.files() if (f.version, f.name) == (month, name)), None)
        if written is None or self._content(written) != after:
            raise InfraError(f"{self.name}: {month}/{name} is not what was written", hint="nothing was deleted")
        for file in files:
            if file.name != name:
                self._call("DELETE", f"/packages/{file.package}/package_files/{file.id}", absent_ok=True)
        return dropped

    def files(self) -> list[PackageFile]:
        """Return the package's files, the oldest month first."""
        query = {"package_type": "generic", "package_name": self.package}
        packages = [p for p in self._pages("/packages", query) if p.get("name") == self.package]
        found = [
            PackageFile(int(p["id"]), int(f["id"]), str(p["version"]), str(f["file_name"]))
            for p in packages
            for f in self._pages(f"/packages/{p['id']}/package_files", {})
        ]
        return sorted({(f.version, f.name): f for f in found}.values(), key=lambda f: (f.version, f.name))

    def _upload(self, month: str, what: str, content: bytes) -> str:
        packed = gzip.compress(content, mtime=0)
        safe = "".join(c if c.isalnum() and c.isascii() else "-" for c in what)[:40]
        name = f"{safe}-{hashlib.sha256(content).hexdigest()[:16]}{ENDING}"
        self._call("PUT", self._path(month, name), data=packed)
        return name

    def _content(self, file: PackageFile) -> bytes | None:
        """Return a file's lines, None without the file; of one that is damaged or foreign, what can be had of it."""
        packed = self._call("GET", self._path(file.version, file.name), absent_ok=True)
        if packed is None:
            return None
        return unpacked(packed) if file.name.endswith(ENDING) else packed

    def _path(self, month: str, name: str) -> str:
        return f"/packages/generic/{quote(self.package, safe='')}/{quote(month, safe='')}/{quote(name, safe='')}"

    def _pages(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        for page in count(1):
            text = self._call("GET", f"{path}?{urlencode({**query, 'per_page': PAGE, 'page': page})}", absent_ok=True)
            found = _list(text or b"[]", f"{self.name}: {self.api}")
            yield from found
            if len(found) < PAGE:
                return

    def _call(self, method: str, path: str, *, data: bytes | None = None, absent_ok: bool = False) -> bytes | None:
        """Ask GitLab; again while it is only busy. What is not there is None when that is not a failure."""
        url = f"{self.api}/projects/{quote(self.project, safe='')}{path}"
        request = WebRequest(url, method, secrets={self.header: self.token}, content=data)

        def answer() -> tuple[bytes | None] | NotYet:
            try:
                reply = ask(request, WHOLE_SECONDS, silence=HTTP_SECONDS)
            except OSError as error:  # no connection, or one that broke off
                return NotYet(str(error))
            return (reply.content,) if reply.ok else self._refusal(method, path, reply, absent_ok=absent_ok)

        deadline = Deadline.after(RETRY_SECONDS)
        try:
            return until(answer, deadline=deadline, what=f"GitLab to answer for {self.name}", interval=1.0)[0]
        except TimedOut as error:
            error.hint = f"is {self.api} up and reachable from this host? --history FILE reads a file instead"
            raise

    def _refusal(self, method: str, path: str, reply: Reply, *, absent_ok: bool) -> tuple[None] | NotYet:
        if reply.status == 404 and absent_ok:
            return (None,)
        if reply.status in MOMENTARY:
            return NotYet(f"HTTP {reply.status}")
        said = f"{self.name}: {method} {path.partition('?')[0]}: HTTP {reply.status} {reply.reason}"
        raise InfraError(said, hint=HINT if reply.status in REFUSED else "see GitLab's log")


def _list(text: bytes, who: str) -> list[dict[str, Any]]:
    """Return a page of objects that have an id; InfraError when it is something else, such as a sign-in page."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(f, dict) and isinstance(f.get("id"), int) for f in found):
        raise InfraError(f"{who} did not answer with a list", hint="is CI_API_V4_URL GitLab's API?")
    return found


def unpacked(packed: bytes) -> bytes:
    """Return what a gzip file holds: of a broken one what comes before the damage, and of no gzip file itself."""
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    found = b""
    try:
        for start in range(0, len(packed), 65536):
            found += stream.decompress(packed[start : start + 65536])
    except zlib.error:
        return found or packed
    return found + stream.flush()
