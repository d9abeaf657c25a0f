"""One fault after another: injected, looked for, undone, and the cell found healthy before the next one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.model import Environment
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from tests.faults.cells import Patient
from tests.faults.fault import Fault, Where
from tests.faults.suites import SUITES, Checks, Said

SHELL = Path(__file__).with_name("shell.sh")
COMMAND_SECONDS = 300  # a static pod that starts anew takes most of a minute on a busy host
HEALTHY_SECONDS = 600.0  # the same, and the suite `policies` in each IP family of a busy host
# While a fault lasts nothing will settle: these waits are for a cluster that is about to.
HASTE = {"settle": 4.0, "probe_follow": 2.0, "metrics": 2.0, "volume": 20.0}
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
    said: tuple[Said, ...] = ()
    trouble: str = ""
    on: str = ""  # the day

    @property
    def became(self) -> str:
        """Return what became of it in a word."""
        return "explained" if self.explained else "detected" if self.detected else "missed"

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
    keep: Callable[[Verdict], None] = lambda _: None
    done: list[Verdict] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of the last trial, by what took them

    def run(self, faults: Iterable[Fault], deadline: Deadline) -> None:
        """Try faults, one suite after the other, until the deadline; a suite is proved before its turn, and at the end.

        Raises:
            Stuck: the cell is not healthy before the first or after one.
        """
        proved: list[str] = []
        for suite in SUITES:
            mine = sorted((fault for fault in faults if fault.suite == suite), key=restarts)
            mine = mine if deadline.remaining() else []
            if mine:
                proved.append(suite)
                self.prove_healthy(tuple(proved))
            for fault in mine:
                if deadline.remaining():
                    self._tell(fault)
        if len(proved) > 1:
            self.prove_healthy(tuple(proved))

    def _tell(self, fault: Fault) -> None:
        found = self.one(fault)
        self.done.append(replace(found, on=f"{datetime.now(UTC):%Y-%m-%d}"))
        self.keep(self.done[-1])
        took = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in self.seconds.items())
        self.say(f"{line(self.done[-1])} ({took})")

    def one(self, fault: Fault) -> Verdict:
        """Inject a fault, look, undo it, and prove the cell healthy."""
        self.seconds = {}
        try:
            with self._timed("in"):
                self._steps(fault.inject, fault.id)
        except Stuck as stuck:
            self._undo(fault)
            return Verdict(fault, self.layout, False, False, trouble=f"not injected: {stuck}")
        try:
            with self._timed("look"):
                said = self._look(fault)
        finally:
            self._undo(fault)
        return judged(fault, self.layout, said)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[what] = time.monotonic() - began

    def prove_healthy(self, suites: tuple[str, ...], *, add_ons: bool = True) -> None:
        """Look until no check fails.

        Raises:
            Stuck: some still do in the end.
        """
        last: list[Said] = []

        def probe() -> bool | NotYet:
            inspection = self.patient.inspection()
            inspection.wait_for_api()
            if any(one.check.startswith("network") for one in last):
                self.checks.clear(inspection)  # a fault may have taken probe pods away
            last[:] = self.checks.failures(inspection, suites, add_ons=add_ons)
            return NotYet(f"{last[0].check}: {last[0].text[:SHOWN]}") if last else True

        try:
            until(probe, deadline=Deadline.after(HEALTHY_SECONDS), what="the cell to be healthy")
        except TimedOut as late:
            raise Stuck("\n".join([late.summary, *(f"{one.check}: {one.text[:SHOWN]}" for one in last)])) from late

    def _look(self, fault: Fault) -> tuple[Said, ...]:
        inspection = self.patient.inspection(hasty(self.patient.timeouts))
        return tuple(self.checks.failures(inspection, (fault.suite,), add_ons=fault.of_add_ons))

    def _undo(self, fault: Fault) -> None:
        with self._timed("undo"):
            self._steps(fault.undo, fault.id)
        with self._timed("proof"):
            self.prove_healthy((fault.suite,), add_ons=fault.of_add_ons)

    def _steps(self, steps: Mapping[Where, str], name: str) -> None:
        hosts = self.patient.inspection().hosts
        for where, commands in steps.items():
            machine = machine_of(where, self.patient.guest.environment)
            script = f"{SHELL.read_text(encoding='utf-8')}\n{commands}"
            done = hosts[machine].run(f"timeout {COMMAND_SECONDS} bash -c {shlex.quote(script)}")
            if done.rc != 0:
                raise Stuck(f"{name} on {machine}: status {done.rc}: {(done.stdout + done.stderr)[-SHOWN:]}")


def restarts(fault: Fault) -> bool:
    """Tell whether a fault starts a part of the control plane anew: that takes longest, so it comes last."""
    return any("pod " in commands or "MANIFESTS" in commands for commands in fault.inject.values())


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
    others = [f"{one.check} blames others than the product" for one in said if not one.failed]
    return Verdict(fault, layout, bool(failed), explained, said, "; ".join(others))


def line(verdict: Verdict) -> str:
    """Return one line, and what was said where that is not as expected."""
    fault = verdict.fault
    first = f"{fault.id} {fault.what}: {verdict.trouble or verdict.became}"
    if verdict.as_expected:
        return first
    wanted = f"  wanted: {fault.check} with {', '.join(fault.words)}"
    return "\n".join([first, wanted, *(f"  {one.check}: {one.text[:SHOWN]}" for one in verdict.said)])
