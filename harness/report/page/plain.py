"""The last night as rows of a plain table, for readers without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
ORDER = "fiucqn.p"  # what needs to be looked at first
MOST_SAID = 200  # characters of a message


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
    items = [item for failure in cell["failures"] if failure["night"] == night for item in failure["items"]]
    said = [_named(document, item) for item in items[:1]]
    if len(items) > 1:
        said.append(f"and {len(items) - 1} more")
    return " ".join(said)


def _named(document: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    what = document["checks"][item["check"]] if item["check"] >= 0 else f"step {item['step']}"
    lines = [line.strip() for line in document["messages"][item["message"]].splitlines() if line.strip()]
    return f"{what}: {lines[0][:MOST_SAID]}" if lines else what
