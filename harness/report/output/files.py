"""The files of a report, by name: the page, the document, the note, the annotations, the badges."""

from __future__ import annotations

import json
from collections.abc import Collection

from harness.history.lines import History
from harness.report.analysis.analyse import Analysis
from harness.report.output import badges, note
from harness.report.output.annotations import links
from harness.report.output.document import document
from harness.report.page import render

FORMATS = ("html", "md", "json", "svg", "annotations")
PAGE, NOTE, DOCUMENT, ANNOTATIONS = "index.html", "summary.md", "report.json", "annotations.json"


def files(
    analysis: Analysis, history: History, *, formats: Collection[str] = FORMATS, title: str = "vmatrix", url: str = ""
) -> dict[str, bytes]:
    """Return the files of those formats; `url` is where the page will be published, "" when it will not."""
    made: dict[str, str] = {}
    whole = document(analysis, history, title=title) if {"html", "json"} & set(formats) else {}
    if "html" in formats:
        made[PAGE] = render(whole)
    if "json" in formats:
        made[DOCUMENT] = json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n"
    if "md" in formats:
        made[NOTE] = note.render(analysis, history, url=url)
    if "annotations" in formats:
        made[ANNOTATIONS] = json.dumps(links(analysis, url=url), ensure_ascii=False, indent=1) + "\n"
    if "svg" in formats:
        made |= badges.badges(analysis)
    return {name: text.encode("utf-8", "replace") for name, text in made.items()}
