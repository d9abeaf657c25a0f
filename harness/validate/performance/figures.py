"""A figure that was measured, with the calibration of the same machines in the same minute; as results carry it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.performance.kinds import KINDS, slo_of

PROPERTY = "figures"  # of a check, in results.jsonl
DIGITS = 5  # that are kept: more is noise
NOTHING = 1e-9  # stands for 0, of which there is no ratio

Key = tuple[str, str]  # name and where


@dataclass(frozen=True)
class Figure:
    """One figure.

    name: of its kind.  where: machine, pair of machines, or verb and scope; "" for the whole cluster.
    value: in the kind's unit.  calibration: how long the kind's fixed work took on these machines, in seconds; 0: none.
    """

    name: str
    where: str
    value: float
    calibration: float = 0.0

    @property
    def key(self) -> Key:
        """Return what the same figure of another run has, too."""
        return self.name, self.where

    @property
    def told(self) -> str:
        """Return the figure as people read it."""
        return f"{label_of(self.key)} {amount(self.name, self.value)}"


def named(text: str, value: float, calibration: float) -> Figure:
    """Return the figure that a record calls by its name and, after a space, its place."""
    name, _, where = text.partition(" ")
    return Figure(name, where, value, calibration)


def carried(figures: Iterable[Figure]) -> list[list[Any]]:
    """Return figures as a property of a check."""
    return [[f.name, f.where, rounded(f.value), rounded(f.calibration)] for f in figures]


def carried_in(properties: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the figures of a check's properties; what is none is passed over."""
    rows = properties.get(PROPERTY, ())
    return tuple(Figure(*row) for row in rows if _is_figure(row)) if isinstance(rows, list | tuple) else ()


def _is_figure(row: object) -> bool:
    if not isinstance(row, list | tuple) or [type(one) for one in row[:2]] != [str, str] or len(row) != 4:
        return False
    return all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) and n >= 0 for n in row[2:])


def took(figure: Figure) -> float:
    """Return what a figure took: an amount of which less is better, whichever way the kind counts."""
    kind = KINDS.get(figure.name)
    value = max(NOTHING, figure.value)
    return 1.0 / value if kind is not None and kind.higher else value


def calibrated(figure: Figure) -> float:
    """Return what a figure took, in terms of the calibration beside it; without one, just what it took."""
    return took(figure) / figure.calibration if figure.calibration > 0 else took(figure)


def over_slo(figure: Figure) -> float | None:
    """Return the SLO that a figure exceeds; None where it exceeds none."""
    most = slo_of(*figure.key)
    return most if most is not None and figure.value > most else None


def label_of(key: Key) -> str:
    """Return what a figure is called, and of what it is."""
    name, where = key
    kind = KINDS.get(name)
    return " ".join(part for part in (kind.label if kind is not None else name, f"({where})" if where else "") if part)


def amount(name: str, value: float) -> str:
    """Return a value with its unit, as people read it."""
    unit = KINDS[name].unit if name in KINDS else ""
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} {unit}".strip() if value < 1000 else f"{value:.0f} {unit}".strip()


def rounded(value: float) -> float:
    """Return a number with as many digits as are kept."""
    return float(f"{value:.{DIGITS}g}")
