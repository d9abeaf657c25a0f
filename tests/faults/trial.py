"""One fault after another: injected, looked for, undone, and the cell found healthy before the next one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model import Environment
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from tests.faults.cells import Patient
from tests.faults.fault import Fault, Need, Where
from tests.faults.suites import Checks, Said

SHELL = Path(__file__).with_name("shell.sh")
COMMAND_SECONDS = 300  # a static pod that starts anew takes most of a minute on a busy host
HEALTHY_SECONDS = 240.0  # the same, and what it takes other programs to notice
# While a fault lasts nothing will settle: these waits are for a cluster that is about to.
HASTE = {"settle": 4.0, "probe_follow": 2.0, "metrics": 2.0, "volume": 20.0}
SUITES = ("nodes", "cluster", "network")
SHOWN = 900  # characters of a message


class Stuck(Exception):
    """A fault could not be injected or undone, or the cell is not healthy: what comes after it would prove nothing."""


@dataclass(frozen=True)
class Verdict:
    """What became of a fault. detected: a check failed.  explained: the right one, with the right words."""

    fault: Fault
    layout: str
    detected: bool
    explained: bool
    said: tuple[Said, ...]
    trouble: str = ""

    @property
    def as_expected(self) -> bool:
        """Tell whether it is found and explained, or missed as its reason says."""
        return not self.trouble and (self.explained if not self.fault.missed else not self.explained)


@dataclass
class Trials:
    """The trials in one cell."""

    patient: Patient
    layout: str
    checks: Checks
    say: Callable[[str], None]
    own_suite: bool = False  # whether only the suite runs that must find the fault
    done: list[Verdict] = field(default_factory=list)

    def run(self, faults: Iterable[Fault]) -> None:
        """Try faults. Raises Stuck when the cell is not healthy before the first or after one."""
        chosen = tuple(faults)
        every = {suite for fault in chosen for suite in self._suites(fault)}
        self.prove_healthy(tuple(suite for suite in SUITES if suite in every))
        for fault in chosen:
            began = time.monotonic()
            self.done.append(self.one(fault))
            self.say(f"{line(self.done[-1])} ({time.monotonic() - began:.0f} s)")

    def one(self, fault: Fault) -> Verdict:
        """Inject a fault, look, undo it, and prove the cell healthy."""
        try:
            self._steps(fault.inject, fault.id)
        except Stuck as stuck:
            self._undo(fault)
            return Verdict(fault, self.layout, False, False, (), f"not injected: {stuck}")
        try:
            said = self._look(fault)
        finally:
            self._undo(fault)
        return judged(fault, self.layout, said)

    def prove_healthy(self, suites: tuple[str, ...], *, add_ons: bool = True) -> None:
        """Look until no check fails.

        Raises:
            Stuck: some still do in the end.
        """
        last: list[Said] = []

        def probe() -> bool | NotYet:
            inspection = self.patient.inspection()
            inspection.wait_for_api()
            last[:] = self.checks.failures(inspection, suites, add_ons=add_ons)
            return NotYet(f"{last[0].check}: {last[0].text[:SHOWN]}") if last else True

        try:
            until(probe, deadline=Deadline.after(HEALTHY_SECONDS), what="the cell to be healthy")
        except TimedOut as late:
            raise Stuck("\n".join([late.summary, *(f"{one.check}: {one.text[:SHOWN]}" for one in last)])) from late

    def _suites(self, fault: Fault) -> tuple[str, ...]:
        return (fault.suite,) if self.own_suite else fault.suites

    def _look(self, fault: Fault) -> tuple[Said, ...]:
        inspection = self.patient.inspection(hasty(self.patient.timeouts))
        return tuple(self.checks.failures(inspection, self._suites(fault), add_ons=Need.ADDONS in fault.needs))

    def _undo(self, fault: Fault) -> None:
        self._steps(fault.undo, fault.id)
        self.prove_healthy(self._suites(fault), add_ons=Need.ADDONS in fault.needs)

    def _steps(self, steps: Mapping[Where, str], name: str) -> None:
        hosts = self.patient.inspection().hosts
        for where, commands in steps.items():
            machine = machine_of(where, self.patient.guest.environment)
            script = f"{SHELL.read_text(encoding='utf-8')}\n{commands}"
            done = hosts[machine].run(f"timeout {COMMAND_SECONDS} bash -c {shlex.quote(script)}")
            if done.rc != 0:
                raise Stuck(f"{name} on {machine}: status {done.rc}: {(done.stdout + done.stderr)[-SHOWN:]}")


def hasty(timeouts: Timeouts) -> Timeouts:
    """Return the time-outs for a cluster with a fault."""
    return timeouts.model_copy(update=HASTE)


def machine_of(where: Where, environment: Environment) -> str:
    """Return the name of a machine."""
    by_group = {
        Where.CONTROL_PLANE: environment.group("control_plane")[0],
        Where.API: environment.group("control_plane")[0],
        Where.OTHER: environment.group("control_plane")[-1],
        Where.WORKER: environment.group("node")[-1],
        Where.ETCD: environment.group("etcd")[0],
    }
    return by_group[where].name


def judged(fault: Fault, layout: str, said: tuple[Said, ...]) -> Verdict:
    """Return what became of a fault, from what checks said of it."""
    failed = [one for one in said if one.failed]
    named = [one.text.lower() for one in failed if one.check == fault.check]
    explained = any(all(word.lower() in text for word in fault.words) for text in named)
    return Verdict(fault, layout, bool(failed), explained, said)


def line(verdict: Verdict) -> str:
    """Return one line, and what was said where that is not as expected."""
    fault = verdict.fault
    word = "explained" if verdict.explained else "detected" if verdict.detected else "missed"
    first = f"{fault.id} {fault.what}: {verdict.trouble or word}"
    if verdict.as_expected:
        return first
    wanted = f"  wanted: {fault.check} with {', '.join(fault.words)}"
    return "\n".join([first, wanted, *(f"  {one.check}: {one.text[:SHOWN]}" for one in verdict.said)])
