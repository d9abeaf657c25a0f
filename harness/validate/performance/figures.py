"""Figures: kinds of measurements with their units and limits, as checks carry them and as people read them.

Upstream promises limits of some (SLO): https://github.com/kubernetes/community/blob/master/sig-scalability/slos/slos.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Work = Literal["cpu", "disk", "network", ""]
POD_START_SLO = 5.0  # seconds, p99, images pulled (pod_startup_latency.md)
API_SLO = 1.0  # seconds, p99, of one object (api_call_latency.md)
API_LIST_SLO = 30.0  # seconds, p99, of a list of a namespace or of all (the same page)
PROPERTY = "figures"  # of a check, in results.jsonl
DIGITS = 5  # that are kept: more is noise
NOTHING = 1e-9  # stands for 0, of which there is no ratio
Key = tuple[str, str]  # name and where


@dataclass(frozen=True)
class FigureKind:
    """One kind of figure.

    unit: "s", or of what it is.  higher: whether more is better.
    work: of the machine's calibration, what the figure is put in relation to; "" for none.
    slo: the most that it should be; None where nobody promises anything.
    """

    name: str
    label: str
    unit: str
    work: Work = ""
    higher: bool = False
    slo: float | None = None


_ALL = (
    FigureKind("machine_cpu", "Calibration: fixed work of one CPU", "s"),
    FigureKind("machine_disk", "Calibration: 4 KiB written with fsync", "s"),
    FigureKind("machine_network", "Calibration: 64 MiB through the machine's own TCP", "s"),
    FigureKind("pod_start_p50", "Pod start, p50", "s", "cpu"),
    FigureKind("pod_start_p99", "Pod start, p99", "s", "cpu", slo=POD_START_SLO),
    FigureKind("api_mean", "API request, mean", "s", "cpu"),
    FigureKind("api_p99", "API request, p99", "s", "cpu"),
    FigureKind("api_storage_mean", "API server's request to etcd, mean", "s", "disk"),
    FigureKind("scheduler_throughput", "Pods scheduled", "/s", "cpu", higher=True),
    FigureKind("service_programming", "Service answered after its endpoint was ready", "s"),
    FigureKind("dns_latency", "DNS answer, mean under steady load", "s", "cpu"),
    FigureKind("dns_rate", "DNS answers, as many as possible", "/s", "cpu", higher=True),
    FigureKind("pod_throughput", "Pod network, throughput", "MB/s", "network", higher=True),
    FigureKind("pod_round_trip", "Pod network, round trip", "s", "cpu"),
    FigureKind("etcd_fsync_mean", "etcd: WAL fsync, mean", "s", "disk"),
    FigureKind("etcd_fsync_p99", "etcd: WAL fsync, p99", "s", "disk"),
    FigureKind("etcd_commit_mean", "etcd: backend commit, mean", "s", "disk"),
    FigureKind("etcd_commit_p99", "etcd: backend commit, p99", "s", "disk"),
    FigureKind("idle_memory", "Memory of the cluster's programs, idle", "MiB"),
    FigureKind("idle_cpu", "CPU of the cluster's programs, idle", "ms/s", "cpu"),
)
KINDS = {kind.name: kind for kind in _ALL}
SCOPES = {"cluster": API_LIST_SLO, "namespace": API_LIST_SLO, "resource": API_SLO}


def slo_of(name: str, where: str) -> float | None:
    """Return the most that a figure should be; that of an API request depends on its scope, the last word of where."""
    if name == "api_p99":
        return SCOPES.get(where.rpartition(" ")[2])
    kind = KINDS.get(name)
    return kind.slo if kind is not None else None


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


def by_key(figures: Iterable[Figure]) -> dict[Key, Figure]:
    """Return figures by key; of several the last."""
    return {figure.key: figure for figure in figures}


def carried(figures: Iterable[Figure]) -> list[list[Any]]:
    """Return figures as a property of a check."""
    return [[f.name, f.where, rounded(f.value), rounded(f.calibration)] for f in figures]


def carried_in(properties: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the figures of a check's properties; what is none is passed over."""
    rows = properties.get(PROPERTY, ())
    return tuple(Figure(*row) for row in rows if _is_figure(row)) if isinstance(rows, list | tuple) else ()


def _is_figure(row: object) -> bool:
    if not isinstance(row, list | tuple) or [type(value) for value in row[:2]] != [str, str] or len(row) != 4:
        return False
    return all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) and n >= 0 for n in row[2:])


def rounded(value: float) -> float:
    """Return a number with as many digits as are kept."""
    return float(f"{value:.{DIGITS}g}")


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
