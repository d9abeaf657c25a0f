"""What a manager counts, as Prometheus reads it.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator

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
        known = list(controllers)
        with self._lock:
            ended = sorted(self._ended.items())
        lines = [
            *_family(
                "leading", "gauge", "whether this manager works (1) or waits for its Lease (0)", [("", int(leading))]
            ),
            *_family("reconciles_total", "counter", "looks at objects", [(_by(c), c.reconciles) for c in known]),
            *_family("errors_total", "counter", "looks that failed", [(_by(c), c.errors) for c in known]),
            *_family("queue_length", "gauge", "objects to look at", [(_by(c), len(c.queue)) for c in known]),
            *_family("operations_total", "counter", "operations that ended", [(_what(*k), n) for k, n in ended]),
        ]
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {text}"
    yield f"# TYPE {PREFIX}_{name} {kind}"
    for labels, value in samples:
        yield f"{PREFIX}_{name}{labels} {value}"


def _by(controller: Controller) -> str:
    return f'{{controller="{controller.name}"}}'


def _what(operation: str, outcome: str) -> str:
    return f'{{operation="{operation}",outcome="{outcome}"}}'
