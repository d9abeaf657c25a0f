"""The files of a report, by name: the page, the document, the note, the annotations, the badges."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
Links = dict[str, list[dict[str, dict[str, str]]]]


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
