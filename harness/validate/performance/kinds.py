"""The figures that there are: what each is called, its unit, which way is better, and what upstream promises.

SLO: https://github.com/kubernetes/community/blob/master/sig-scalability/slos/slos.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Work = Literal["cpu", "disk", "network", ""]
POD_START_SLO = 5.0  # seconds, p99, images pulled (pod_startup_latency.md)
API_SLO = 1.0  # seconds, p99, of one object (api_call_latency.md)
API_LIST_SLO = 30.0  # seconds, p99, of a list of a namespace or of all (the same page)


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
