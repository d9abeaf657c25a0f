"""A manager: which controllers start in which order, and how they end."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from harness.operator.context import OperatorContext
from harness.operator.registry import Part

log = logging.getLogger(__name__)


def start(context: OperatorContext, parts: Iterable[Part]) -> None:
    """Start controllers; return once each kind that they read had its first list, and they work.

    Raises:
        TimedOut: the API did not list a kind in time.
    """
    for part in parts:
        part.load().start(context)
    context.informers.start()
    context.informers.wait(context.options.stretch)
    for controller in context.controllers:
        controller.start()
    log.info("controllers work: %s", ", ".join(controller.name for controller in context.controllers))


def stop(context: OperatorContext) -> None:
    """Let controllers end after what they are doing, and stop watching; can be called twice."""
    context.stopping.set()
    for controller in context.controllers:
        controller.stop()
    while context.stoppers:
        context.stoppers.pop()()
    context.informers.stop()
