"""What a manager counts, as Prometheus reads it.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from harness.kube.reconcile import Controller

PREFIX = "vmatrix_operator"


class Metrics:
    """Counts the operations that ended; thread-safe."""

    def __init__(self) -> None:
        self._ended: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def operation_ended(self, operation: str, outcome: str) -> None:
        """Count an operation that ended with an outcome."""
        with self._lock:
            self._ended[operation, outcome] += 1

    def text(self, controllers: Iterable[Controller], *, leading: bool) -> str:
        """Return everything in Prometheus' text format; `leading`: whether this manager is the one that works."""
        known = {f'{{controller="{one.name}"}}': one for one in controllers}
        with self._lock:
            ended = {f'{{operation="{what}",outcome="{how}"}}': n for (what, how), n in sorted(self._ended.items())}
        return "".join(
            (
                _family("leading gauge", "whether this manager works (1) or waits for its Lease (0)", {"": leading}),
                _family("reconciles_total counter", "looks at objects", {by: c.reconciles for by, c in known.items()}),
                _family("errors_total counter", "looks that failed", {by: c.errors for by, c in known.items()}),
                _family("queue_length gauge", "objects to look at", {by: len(c.queue) for by, c in known.items()}),
                _family("operations_total counter", "operations that ended", ended),
            )
        )


def _family(name_and_kind: str, text: str, samples: Mapping[str, int | bool]) -> str:
    """Return the lines of one metric, whose samples are named by their labels."""
    name = f"{PREFIX}_{name_and_kind.partition(' ')[0]}"
    lines = [f"# HELP {name} {text}", f"# TYPE {PREFIX}_{name_and_kind}"]
    return "\n".join([*lines, *(f"{name}{labels} {value:d}" for labels, value in samples.items())]) + "\n"
