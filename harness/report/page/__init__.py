"""The nightly report as one HTML file that needs nothing else: no network, no server, no other file.

No text of the document is ever part of markup: the script's copy is in base64 (see pack), the plain table for readers
without scripts is escaped by the template. The policy names script and style by their hashes, so that even markup that
got in would not run.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from harness.check_result import shortened_below

__all__ = ["MOST_BYTES", "render"]
MOST_BYTES = 3_000_000  # of the whole page: it is opened on telephones, and kept for every pipeline
LONG = 8_000  # characters of a message that always may stay
SHORTER = 1_500
SHORT = 300
STEP_NIGHTS = 60  # nights of which steps' durations stay when room is short: what the page's plots of steps show
FAILURE_NIGHTS = 30
CUT = "\n… (shortened; see report.json or the logs)"
OUTCOMES = {
    "p": ("✓", "passed"),
    "f": ("✕", "failed"),
    "q": ("Q", "failed, in quarantine"),
    "i": ("!", "interrupted"),
    "u": ("…", "unfinished"),
    "c": ("?", "unchecked"),
    "n": ("\N{EN DASH}", "not started"),
    ".": ("", "not run"),
}
BLAMES = {"p": "product", "i": "infra", "h": "harness", "u": "user"}
NOT_RAN = ".n"  # letters of outcomes
ORDER = "fiucqn.p"  # what needs to be looked at first
ASSETS = files("harness.report.page") / "assets"
# In the order in which they build on each other; one scope, so that nothing is left in the window's names.
SCRIPTS = (
    "dom",
    "words",
    "model",
    "fragment",
    "filter",
    "plot",
    "headline",
    "attention",
    "grid",
    "versus",
    "figures",
    "lists",
    "cell",
    "main",
)
ENDS = ("</script", "</style", "<!--")  # what would end the element that a text is put into
Document = dict[str, Any]


def render(document: Mapping[str, Any]) -> str:
    """Return the whole page of a report's document, in UTF-8 at most `MOST_BYTES` long where `pack` can make it so.

    document: as harness.report.output makes it, and as report.json has it; its texts may be hostile.
    """
    style, script = _asset("page.css"), _script()
    nights = document["nights"]
    values: dict[str, Any] = {
        "document": document,
        "unit": document.get("unit", "night"),
        "night": nights[-1] if nights else None,
        "rows": rows(document),
        "faults": document.get("faults"),
        "policy": policy(style, script),
        "style": Markup(style),  # noqa: S704 - the project's own files, looked through by `_asset`
        "script": Markup(script),  # noqa: S704
        "packed": "",
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_asset("page.html.j2", checked=False))
    frame = len(_encodable(template.render(values)).encode())
    return _encodable(template.render({**values, "packed": pack(document, MOST_BYTES - frame)}))


def policy(style: str, script: str) -> str:
    """Return the content security policy: this style, this script, nothing from anywhere, no text made markup."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _asset(name: str, *, checked: bool = True) -> str:
    """Return a file of the page; newlines as a browser sees them, for the hash."""
    text = (ASSETS / name).read_text(encoding="utf-8").replace("\r\n", "\n")
    endings = [end for end in ENDS if checked and end in text.lower()]
    if endings:
        raise ValueError(f"{name} holds {endings[0]!r}, which would end the element that it is put into")
    return text


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _encodable(text: str) -> str:
    """Return the text without lone surrogates, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True)
class Row:
    """One cell in the last night."""

    id: str
    sign: str
    outcome: str
    blame: str
    news: str
    what: str


def rows(document: Mapping[str, Any]) -> list[Row]:
    """Return a row for each cell, those that failed first."""
    last = len(document["nights"]) - 1
    if last < 0:
        return []
    cells = sorted(document["cells"], key=lambda cell: (ORDER.find(cell["outcomes"][last]), cell["id"]))
    return [_row(document, cell, last) for cell in cells]


def _row(document: Mapping[str, Any], cell: Mapping[str, Any], night: int) -> Row:
    sign, outcome = OUTCOMES.get(cell["outcomes"][night], ("?", "unknown"))
    blame = BLAMES.get(cell["blames"][night], "")
    return Row(cell["id"], sign, outcome, blame, cell["news"], _what(document, cell, night))


def _what(document: Mapping[str, Any], cell: Mapping[str, Any], night: int) -> str:
    """Return what failed in a night; of a cell that did not run then, what failed when it last failed."""
    ran = cell["outcomes"][night] not in NOT_RAN
    failures = [failure for failure in cell["failures"] if (failure["night"] == night if ran else failure["items"])]
    if not failures:
        return ""
    latest = max(failures, key=lambda failure: failure["night"])
    lead = "" if latest["night"] == night else f"last failure {document['nights'][latest['night']]['date']}: "
    items = latest["items"]
    more = f" and {len(items) - 1} more" if len(items) > 1 else ""
    return f"{lead}{_named(document, items[0])}{more}" if items else ""


def _named(document: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    what = document["checks"][item["check"]] if item["check"] >= 0 else f"step {item['step']}"
    lines = [line.strip() for line in document["messages"][item["message"]].splitlines() if line.strip()]
    return f"{what}: {lines[0]}" if lines else what


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
    note = f"To keep this file small, messages are cut to {SHORTER} characters; report.json has the full text."
    return {**document, "messages": _cut(document, SHORTER), "left_out": [note]}


def _recent_steps(document: Mapping[str, Any]) -> Document:
    note = (
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
    return {**document, "cells": cells, "messages": _cut(document, SHORT), "left_out": [note]}


def _recent_failures(document: Mapping[str, Any]) -> Document:
    smaller = _recent_steps(document)
    oldest = len(document["nights"]) - FAILURE_NIGHTS
    cells = [
        {**cell, "failures": [f for f in cell["failures"] if f["night"] >= oldest], "passed_checks": []}
        for cell in smaller["cells"]
    ]
    note = (
        f"For failures before the last {FAILURE_NIGHTS} {document.get('unit', 'night')}s only the outcome is kept; "
        "checks that never failed are not listed."
    )
    used = _used_messages(document, cells)
    messages = [text if number in used else "" for number, text in enumerate(smaller["messages"])]
    return {**smaller, "cells": cells, "messages": messages, "left_out": [*smaller["left_out"], note]}


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
