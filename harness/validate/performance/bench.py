"""The bench: a guest whose speed is measured, with its machines calibrated beside it, and what it uses when idle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from harness.kube import Cluster
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.expected import ExpectedGuest
from harness.validate.hosts import MACHINE, run_on_each
from harness.validate.inspection import Inspection
from harness.validate.performance.calibration import Calibration, beside, calibrate
from harness.validate.phases.upgrade import OF_PLUGINS

T = TypeVar("T")
Told = Callable[..., None]  # takes figures, and `words` in their place for people
BESIDE = ("haproxy", "nginx", "containerd-shim-runc-v2", "conmon")  # programs of a cluster besides those of Kubernetes
USAGE = MACHINE / "usage.py"
SECONDS = 10.0  # long enough for the kubelet's and the controllers' periods


@dataclass(frozen=True)
class Bench:
    """A cluster whose speed is measured. image: of agnhost, as nodes pull it."""

    inspection: Inspection
    timeouts: Timeouts
    image: str

    @property
    def api(self) -> Cluster:
        """Return the cluster's API."""
        return self.inspection.api

    @property
    def expected(self) -> ExpectedGuest:
        """Return what the cluster should be."""
        return self.inspection.expected

    @property
    def places(self) -> tuple[str, ...]:
        """Return the nodes that take workloads."""
        return self.expected.workers or self.expected.nodes

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the cluster's programs besides those of Kubernetes."""
        plugin = self.expected.plugin
        own = OF_PLUGINS.get(plugin.image or "") if plugin is not None else None
        return (*BESIDE, *([own] if own is not None else []))

    def hosts(self, names: Collection[str]) -> dict[str, Any]:
        """Return some machines, by name."""
        return {name: self.inspection.hosts[name] for name in names}

    def deadline(self) -> Deadline:
        """Return until when one measurement has to end."""
        return Deadline.after(self.timeouts.performance)

    def beside(self, measure: Callable[[], T]) -> tuple[T, Calibration]:
        """Measure between two calibrations of all machines."""
        calibrated = partial(calibrate, self.inspection.hosts, self.timeouts)
        return beside(calibrated, measure)


@dataclass(frozen=True)
class Usage:
    """Memory in MiB and CPU time in ms for each second, of all programs together, and by program."""

    mib: float
    cpu: float
    programs: Mapping[str, float]


def idle_usage(hosts: Mapping[str, Any], timeouts: Timeouts, more: tuple[str, ...]) -> dict[str, Usage]:
    """Return what each machine's programs use.

    Args:
        more: names of programs besides those of Kubernetes, such as the network plugin's.

    Raises:
        InfraError: a machine does not answer.
    """
    arguments = {"seconds": SECONDS, "names": list(more)}
    limit = timeouts.machine_program + SECONDS
    return run_on_each(hosts, USAGE, usage_of, timeouts, given=dict.fromkeys(hosts, arguments), seconds=limit)


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """Return a machine's usage."""
    cpu = sum(float(process["cpu"]) for process in raw.values()) * 1000
    return Usage(
        mib=sum(float(process["kib"]) for process in raw.values()) / 1024,
        cpu=cpu,
        programs={name: float(process["kib"]) / 1024 for name, process in raw.items()},
    )
