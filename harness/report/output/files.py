"""The files of a report, by name: the page, the document, the note, the annotations, the badges; and their server.

The server is for one person at this host (`vmatrix report --serve`): only GET, only names that are known, only to who
asks for a loopback host: another site's script in the same browser cannot read it by a name that it lets point here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any

from harness.errors import BadInput, VmatrixError
from harness.history.lines import History
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.story import CellStory
from harness.report.output import badges, note
from harness.report.output.badges import FaultScore
from harness.report.output.document import commits, compare_url, document
from harness.report.page import render
from harness.sanitize import encoded

SECTION = "vmatrix"
MOST = 50  # links: a list that nobody scrolls to the end of
FORMATS = ("html", "md", "json", "svg", "annotations")
PAGE, NOTE, DOCUMENT, ANNOTATIONS = "index.html", "summary.md", "report.json", "annotations.json"
LOOPBACK = "127.0.0.1"
NAMES = frozenset({LOOPBACK, "localhost", "[::1]"})
FRESH_SECONDS = 5.0  # for which one answer serves all
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".svg": "image/svg+xml",
}
Links = dict[str, list[dict[str, dict[str, str]]]]
Contents = Mapping[str, bytes]


@dataclass
class Sources:
    """What the files of a report are made of; the document is made when the first format asks for it.

    url: where the page will be published, "" when it will not.
    faults: how many faults the checks find, where that was counted.  unsent: alerts that nobody took, in sentences.
    """

    analysis: Analysis
    history: History
    title: str = "vmatrix"
    url: str = ""
    faults: FaultScore | None = None
    unsent: tuple[str, ...] = ()

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the whole analysis as one JSON document."""
        score = self.faults.told() if self.faults is not None else None
        return {**document(self.analysis, self.history, title=self.title), "faults": score}

    def note(self) -> str:
        """Return the note of a merge request."""
        score = "\n".join([*self.faults.lines(), ""]) if self.faults is not None else ""
        unsent = "".join(f"\n- {note.code(line)}" for line in self.unsent)
        return note.render(self.analysis, self.history, url=self.url) + score + (f"{unsent}\n" if unsent else "")

    def badges(self) -> dict[str, str]:
        """Return the badges by file name."""
        return badges.badges(self.analysis) | (self.faults.badges() if self.faults is not None else {})


@dataclass(frozen=True)
class Files:
    """The files of a report by name, and the formats that could not be made, which keep no other from being made."""

    contents: Mapping[str, bytes]
    failures: Mapping[str, Exception]


def files(made: Sources, formats: Collection[str] = FORMATS) -> Files:
    """Return the files of those formats."""
    contents: dict[str, bytes] = {}
    failures: dict[str, Exception] = {}
    for name in (name for name in FORMATS if name in formats):
        try:
            contents |= {file: encoded(text) for file, text in WRITERS[name](made).items()}
        except Exception as error:  # noqa: BLE001 - whatever it is, the other formats are to be made
            failures[name] = error
    return Files(contents, failures)


def links(analysis: Analysis, *, url: str = "") -> Links:
    """Return the links, the new failures first; no section without any. `url` is of the published report, if any."""
    rows = [("vmatrix report", url)]
    for cell in sorted((c for c in analysis.tonight if c.failing), key=lambda c: (c.news != "new", c.id)):
        if (record := cell.last) is not None:
            label = f"{record.outcome}: {cell.id} ({record.blame or 'quarantined'}, {cell.news})"
            rows += [(label, record.where.job_url), (f"changed since {cell.id} passed", _changed(analysis, cell))]
    links = dict.fromkeys(link for link in rows if link[1].startswith(("https://", "http://")))
    entries = [{"external_link": {"label": label, "url": target}} for label, target in list(links)[:MOST]]
    return {SECTION: entries} if entries else {}


def _changed(analysis: Analysis, cell: CellStory) -> str:
    if cell.since is None:
        return ""
    return compare_url(analysis.nights[cell.since.bad], *commits(analysis.nights, cell.since))


WRITERS: Mapping[str, Callable[[Sources], dict[str, str]]] = {
    "html": lambda made: {PAGE: render(made.document)},
    "md": lambda made: {NOTE: made.note()},
    "json": lambda made: {DOCUMENT: json.dumps(made.document, ensure_ascii=False, separators=(",", ":")) + "\n"},
    "svg": Sources.badges,
    "annotations": lambda made: {
        ANNOTATIONS: json.dumps(links(made.analysis, url=made.url), ensure_ascii=False, indent=1) + "\n"
    },
}


def server(make: Callable[[], Contents], port: int) -> ThreadingHTTPServer:
    """Return a server that is bound and not serving yet; its `server_port` is the port.

    Args:
        make: returns the files by name; "index.html" is also the root.  port: 0 for any that is free.

    Raises:
        BadInput: the port is in use or not allowed.
    """
    handler = type("Handler", (ReportHandler,), {"files": staticmethod(Fresh(make).files)})
    try:
        made = ThreadingHTTPServer((LOOPBACK, port), handler)
    except OSError as error:
        raise BadInput(
            f"cannot serve on {LOOPBACK}:{port}: {error.strerror}", hint="pass another --port, or 0 for any free one"
        ) from error
    made.daemon_threads = True
    return made


@dataclass
class Fresh:
    """Files that are made when they are asked for, and kept for a moment."""

    make: Callable[[], Contents]
    _files: Contents = field(default_factory=dict)
    _made: float = -FRESH_SECONDS
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def files(self) -> Contents:
        """Return the files by name; raises what making them raises."""
        with self._lock:
            if not self._files or monotonic() - self._made > FRESH_SECONDS:
                self._files = self.make()
                self._made = monotonic()
            return self._files


class ReportHandler(BaseHTTPRequestHandler):
    """Answers GET for the report's files."""

    files: Callable[[], Contents]
    server_version = "vmatrix"
    sys_version = ""

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in NAMES:
            self._answer(403, "text/plain; charset=utf-8", b"use 127.0.0.1 or localhost in the address\n")
            return
        name = self.path.partition("?")[0].removeprefix("/") or "index.html"
        try:
            content = self.files().get(name)
        except VmatrixError as error:
            self._answer(500, "text/plain; charset=utf-8", f"{error.summary}\n{error.hint}\n".encode())
            return
        if content is None:
            self._answer(404, "text/plain; charset=utf-8", b"the report has no such file\n")
            return
        ending = name[name.rfind(".") :] if "." in name else ""
        self._answer(200, KINDS.get(ending, "application/octet-stream"), content)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for header, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
        }.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing: the terminal is the person's."""
