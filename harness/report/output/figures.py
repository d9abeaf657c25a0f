"""The figures' part of the report's document: their kinds, what is slower, and each cell's series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harness.report.analysis.analyse import Analysis
from harness.report.analysis.story import CellStory
from harness.validate.performance.figures import KINDS, over_slo, rounded


def kinds_of(analysis: Analysis) -> list[str]:
    """Return the kinds of figures that some cell has, in their order."""
    seen = {name: None for cell in analysis.cells for name in cell.figures.series}
    return [*(name for name in KINDS if name in seen), *(name for name in seen if name not in KINDS)]


def figures(analysis: Analysis, places: Mapping[str, int]) -> dict[str, Any]:
    """Return what is said across cells; `places` are the cells' numbers."""
    tonight = [cell for cell in analysis.tonight if cell.last is not None and cell.last.figures]
    compared = [(cell, one) for cell in tonight for one in cell.figures.compared.values()]
    slower = [(places[cell.id], slow) for cell, found in compared for slow in found.slower]
    over = [(places[cell.id], figure) for cell, found in compared for figure, _ in found.over]
    return {
        "kinds": [_kind(name) for name in kinds_of(analysis)],
        "slower": [
            {"cell": cell, "ratio": rounded(slow.ratio), "said": slow.told}
            for cell, slow in sorted(slower, key=lambda one: -one[1].ratio)
        ],
        "over": [{"cell": cell, "said": figure.told, "slo": over_slo(figure)} for cell, figure in over],
        "compared": sum(found.compared for _, found in compared),
        "young": sum(found.young for _, found in compared),
    }


def series(cell: CellStory, kinds: list[str]) -> list[dict[str, Any]]:
    """Return a cell's series, each with the number of its kind."""
    return [
        {"kind": kinds.index(name), "values": [rounded(v) if v is not None else None for v in values]}
        for name, values in cell.figures.series.items()
    ]


def _kind(name: str) -> dict[str, Any]:
    known = KINDS.get(name)
    if known is None:
        return {"name": name, "label": name, "unit": "", "higher": False, "slo": None}
    return {key: value for key, value in asdict(known).items() if key != "work"}
