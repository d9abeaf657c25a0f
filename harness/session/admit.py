"""Room for the cells of one run: which cell may begin now, told when machines are up and when a cell is gone."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from harness.cell.site import Site
from harness.cell.steps import StepEvent, Steps
from harness.errors import InfraError, InfraRetriable
from harness.model import Cell
from harness.schedule.admission import Admission, Decision, Outlook
from harness.schedule.durations import Durations, Expectation
from harness.schedule.placement import Limits
from harness.session.plan import RunPlan
from harness.until import Deadline, NotYet, TimedOut, until

log = logging.getLogger(__name__)
RENEW_SECONDS = 5.0  # far below the time after which a reservation expires
LOOK_SECONDS = 2.0  # between looks for room


@dataclass
class Waiting:
    """A run's admission with its sign of life, and what its cells are expected to take.

    tell: shows people why a cell waits ("" for all cells), once for each kind of reason.
    """

    admission: Admission
    durations: Durations
    seconds: float
    tell: Callable[[str, str], None] | None = None
    _told: dict[str, str] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @staticmethod
    def on(site: Site, plan: RunPlan, tell: Callable[[str, str], None]) -> Waiting:
        """Open the admission of a run on its infra cluster; `tell` as above.

        Raises:
            BadInput: a cell can never fit there.  InfraError: the cluster takes no machines.
        """
        settings = plan.project.settings
        limits = Limits(settings.max_memory_mib, settings.max_cpus, settings.max_machines)
        ttl, spare_mib = site.timeouts.reservation, plan.measured.spare_mib if plan.measured is not None else None
        outlook = replace(Outlook.of(site.cluster, ttl, site.namespace, spare_mib), asked=plan.asked)
        admission = Admission(site.cluster, plan.run, limits=limits, ttl=ttl, namespace=site.namespace, outlook=outlook)
        admission.check_possible(plan.cells)
        made = Waiting(admission, Durations.load(settings, os.environ), site.timeouts.admission, tell)
        threading.Thread(target=made._renew, daemon=True, name="reservations").start()
        return made

    def _renew(self) -> None:
        while not self._stopped.wait(RENEW_SECONDS):
            try:
                self.admission.renew()
            except InfraRetriable as error:
                log.warning("renewing this run's reservations failed: %s", error.summary)

    def say(self, cell: str, reason: str) -> None:
        """Say why a cell waits; again only when the reason is another, not only its numbers."""
        kind = "".join(c for c in reason if not c.isdigit())
        if self._told.get(cell) != kind and self.tell is not None:
            self._told[cell] = kind
            self.tell(cell, reason)

    def expected(self, cell: Cell) -> Expectation:
        """Return how long a cell is expected to take."""
        return self.durations.expected(cell)

    def first(self, cells: Sequence[Cell]) -> Decision:
        """Return which of several cells may begin now, the first that fits; its room is reserved."""
        return self.admission.admit_first(cells)

    def admit(self, cell: Cell, steps: Steps) -> None:
        """Wait until a cell may begin; a wait is a step of its own, and says what for.

        Raises:
            InfraRetriable: no room for it in time.
        """
        refused = self.admission.try_admit(cell)
        if refused is None:
            return
        self.say(cell.id, refused.reason)
        with steps.step("admission"):

            def probe() -> bool | NotYet:
                answer = self.admission.try_admit(cell)
                if answer is None:
                    return True
                self.say(cell.id, answer.reason)
                return NotYet(answer.reason)

            try:
                until(
                    probe,
                    deadline=Deadline.after(self.seconds),
                    what=f"room for {cell.id}",
                    interval=LOOK_SECONDS,
                )
            except TimedOut as late:
                raise no_room(cell, self.seconds, late.detail or late.summary) from late

    def on_step(self, event: StepEvent) -> None:
        """Give room back: the reservation once the machines count by themselves, the rest once they are gone."""
        if event.outcome != "passed":
            return
        try:
            if event.path == ("provision",):
                self.admission.machines_up(event.cell)
            elif event.path == ("teardown",):
                self.admission.gone(event.cell)
        except InfraError as error:
            log.warning("%s: its reservation could not be released and will expire: %s", event.cell, error.summary)

    def stop(self) -> None:
        """Give everything back."""
        self._stopped.set()
        try:
            self.admission.close()
        except InfraError as error:
            log.warning("this run's reservations could not be released and will expire: %s", error.summary)


def no_room(cell: Cell, seconds: float, reason: str) -> InfraRetriable:
    """Return the error of a cell that waited in vain."""
    return InfraRetriable(
        f"no room for {cell.id} within {seconds:.0f} s: {reason}",
        hint="`vmatrix status` shows the cells that exist, `vmatrix reap --expired` removes expired ones",
    )
