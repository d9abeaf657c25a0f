"""What the measurements share: the cluster, its machines and their calibration, the image of their pods."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from harness.kube import Cluster
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.expected import ExpectedGuest
from harness.validate.inspection import Inspection
from harness.validate.performance import calibration
from harness.validate.performance.calibration import Calibration
from harness.validate.phases.upgrade import OF_PLUGINS

T = TypeVar("T")
Told = Callable[..., None]  # takes figures, and `words` in their place for people
BESIDE = ("haproxy", "nginx", "containerd-shim-runc-v2", "conmon")  # programs of a cluster besides those of Kubernetes


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
        calibrated = partial(calibration.calibrate, self.inspection.hosts, self.timeouts)
        return calibration.beside(calibrated, measure)
