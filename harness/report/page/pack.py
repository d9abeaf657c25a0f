"""The report's document as text that a page can carry: JSON, compressed, in base64.

The document is columnar already (a letter or a number per night and cell), which compresses to about a fifth. Base64
has no character that means anything in HTML. What does not fit is left out in steps, the oldest and longest first, and
the page says so.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.check_result import shortened_below

MOST_BYTES = 3_000_000  # of the whole page: it is opened on telephones, and kept for every pipeline
LONG = 8_000  # characters of a message that always may stay
SHORTER = 1_500
SHORT = 300
STEP_NIGHTS = 60  # nights of which steps' durations stay when room is short: what the page's plots of steps show
FAILURE_NIGHTS = 30
CUT = "\n… (shortened; see report.json or the logs)"

Document = dict[str, Any]


def pack(document: Mapping[str, Any], most: int) -> str:
    """Return the document packed, if need be with less in it, in at most `most` characters.

    A document whose last nights alone are longer is returned as small as it gets.
    """
    packed = ""
    for reduce in REDUCTIONS:
        text = json.dumps(reduce(document), separators=(",", ":"))
        packed = base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
        if len(packed) <= most:
            break
    return packed


def _whole(document: Mapping[str, Any]) -> Document:
    return {**document, "messages": _cut(document, LONG), "left_out": []}


def _shorter(document: Mapping[str, Any]) -> Document:
    said = f"To keep this file small, messages are cut to {SHORTER} characters; report.json has the full text."
    return {**document, "messages": _cut(document, SHORTER), "left_out": [said]}


def _recent_steps(document: Mapping[str, Any]) -> Document:
    said = (
        f"To keep this file small, messages are cut to {SHORT} characters, and durations of steps and figures to the "
        f"last {STEP_NIGHTS} {document.get('unit', 'night')}s; report.json has all data."
    )
    cells = [
        {
            **cell,
            "steps": [_recent(step, "seconds") for step in cell["steps"]],
            "figures": [_recent(figure, "values") for figure in cell["figures"]],
        }
        for cell in document["cells"]
    ]
    return {**document, "cells": cells, "messages": _cut(document, SHORT), "left_out": [said]}


def _recent_failures(document: Mapping[str, Any]) -> Document:
    smaller = _recent_steps(document)
    oldest = len(document["nights"]) - FAILURE_NIGHTS
    cells = [
        {**cell, "failures": [f for f in cell["failures"] if f["night"] >= oldest], "passed_checks": []}
        for cell in smaller["cells"]
    ]
    said = (
        f"For failures before the last {FAILURE_NIGHTS} nights only the outcome is kept; checks that never failed are "
        "not listed."
    )
    used = _used_messages(document, cells)
    messages = [text if number in used else "" for number, text in enumerate(smaller["messages"])]
    return {**smaller, "cells": cells, "messages": messages, "left_out": [*smaller["left_out"], said]}


REDUCTIONS: tuple[Callable[[Mapping[str, Any]], Document], ...] = (_whole, _shorter, _recent_steps, _recent_failures)


def _recent(series: Mapping[str, Any], name: str) -> Document:
    values = series[name]
    older = max(0, len(values) - STEP_NIGHTS)
    return {**series, name: [None] * older + list(values[older:])}


def _cut(document: Mapping[str, Any], most: int) -> list[str]:
    return [text if len(text) <= most else shortened_below("", text, most) + CUT for text in document["messages"]]


def _used_messages(document: Mapping[str, Any], cells: list[Document]) -> set[int]:
    used = {cluster["message"] for cluster in document["clusters"]}
    for cell in cells:
        used |= {item["message"] for failure in cell["failures"] for item in failure["items"]}
        used |= {reason for _, reason in cell["not_run_checks"]}
        used |= {check["reason"] for check in cell["checks"]}
    return used
