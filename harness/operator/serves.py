"""What a manager serves besides its work: health and figures, and webhooks where it was told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.kube.health import Health, health_served
from harness.kube.leader import Leadership
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.metrics import of_moments, of_objects
from harness.operator.webhooks.server import Webhooks


class Serves:
    """The servers of one manager; as a context, webhooks are served in its body.

    Attributes: working (set once the controllers work).
    """

    def __init__(self, context: OperatorContext, leadership: Leadership, webhooks: Webhooks | None) -> None:
        self.working = threading.Event()
        self._context = context
        self._leadership = leadership
        self._webhooks = webhooks

    def __enter__(self) -> None:
        if self._webhooks is not None:
            self._webhooks.start()

    def __exit__(self, *_: object) -> None:
        if self._webhooks is not None:
            self._webhooks.stop()

    @contextmanager
    def health(self, port: int) -> Iterator[int]:
        """Answer probes in the body; give the port. Raises BadInput if it cannot be had."""
        health = Health(self._ails, self._waits, self._figures)
        with health_served(health, port, hint="choose another: --health-port") as served:
            yield served

    def _ails(self) -> str:
        deaf = self._context.informers.deaf()
        return f"nothing is seen any more of {', '.join(deaf)}" if deaf else ""

    def _waits(self) -> str:
        """Tell what is waited for. A manager that waits for the Lease is ready: it can take over."""
        if self._webhooks is not None and not self._webhooks.serving.is_set():
            return "waiting for the webhooks' certificate"
        return "waiting for the first lists" if self._context.controllers and not self.working.is_set() else ""

    def _figures(self) -> str:
        context, working = self._context, self.working.is_set()
        made = context.metrics.text(context.controllers, leading=working)
        expires = self._webhooks.expires if self._webhooks is not None else None
        made += of_moments(self._leadership.renewed_at, expires)
        known = context.informers.known
        return made + (of_objects(known(CLUSTER_DEPLOYMENT), known(MACHINE)) if working else "")
