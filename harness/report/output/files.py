"""The files of a report, by name: the page, the document, the note, the annotations, the badges."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from harness.history.lines import History
from harness.report.analysis.analyse import Analysis
from harness.report.output import badges, note
from harness.report.output.annotations import links
from harness.report.output.document import document
from harness.report.output.fault_score import FaultScore
from harness.report.page import render
from harness.sanitize import encoded

FORMATS = ("html", "md", "json", "svg", "annotations")
PAGE, NOTE, DOCUMENT, ANNOTATIONS = "index.html", "summary.md", "report.json", "annotations.json"


def files(
    analysis: Analysis,
    history: History,
    *,
    formats: Collection[str] = FORMATS,
    title: str = "vmatrix",
    url: str = "",
    faults: FaultScore | None = None,
) -> dict[str, bytes]:
    """Return the files of those formats.

    Args:
        url: where the page will be published, "" when it will not.
        faults: how many faults the checks find, where that was counted.
    """
    made: dict[str, str] = {}
    whole: dict[str, Any] = {}
    if {"html", "json"} & set(formats):
        score = faults.told() if faults is not None else None
        whole = {**document(analysis, history, title=title), "faults": score}
    if "html" in formats:
        made[PAGE] = render(whole)
    if "json" in formats:
        made[DOCUMENT] = json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n"
    if "md" in formats:
        made[NOTE] = note.render(analysis, history, url=url)
        made[NOTE] += "\n".join([*faults.lines(), ""]) if faults is not None else ""
    if "annotations" in formats:
        made[ANNOTATIONS] = json.dumps(links(analysis, url=url), ensure_ascii=False, indent=1) + "\n"
    if "svg" in formats:
        made |= badges.badges(analysis)
        made |= faults.badges() if faults is not None else {}
    return {name: encoded(text) for name, text in made.items()}
