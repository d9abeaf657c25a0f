"""Which controllers start in which order, and how they end."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from harness.operator.context import OperatorContext
from harness.operator.registry import Part
from harness.until import Deadline

log = logging.getLogger(__name__)
END_SECONDS = 20.0  # for looks under way to end: of the 30 s that a pod has by default


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


def stop(context: OperatorContext) -> bool:
    """Let controllers end after what they are doing, and stop watching; tell whether all of them ended in time.

    It can be called twice.
    """
    context.stopping.set()
    for controller in context.controllers:
        controller.stop()
    while context.stoppers:
        context.stoppers.pop()()
    context.informers.stop()
    deadline = Deadline.after(END_SECONDS)
    late = [one.name for one in context.controllers if not one.join(deadline.remaining())]
    if late:
        log.warning("still at work after %.0f s: %s", END_SECONDS, ", ".join(late))
    return not late
