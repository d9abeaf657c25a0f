"""Whether schedulers run with the KubeSchedulerConfiguration of the cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.customised_seen import CustomisedFacts
from harness.validate.findings import Mismatch, differs, on_every
from harness.validate.judge.inclusion import lacking
from harness.validate.variables import OWN_SCHEDULER, SCHEDULER, SCHEDULER_FILE, hardened_scheduler

OK = 200
NEWER_SECONDS = 2.0  # what clocks and times of files may differ by
OF_THE_FILE = ("apiVersion", "kind")  # which the scheduler does not report


def other_scheduler(seen: Mapping[str, CustomisedFacts], expected: ExpectedGuest) -> list[Mismatch]:
    """Return schedulers with another file, with a file that they have not read, and with other settings in effect."""
    given = expected.variables.get(SCHEDULER) or {}
    wanted = _merged({**OWN_SCHEDULER, **hardened_scheduler(expected.variables)}, given)

    def judge(name: str, facts: CustomisedFacts) -> Iterator[Mismatch]:
        where, there = f"{name} kube-scheduler", facts.scheduler
        if there is None:
            yield Mismatch(where, "a running process", "none")
            return
        yield from differs(where, "--config", SCHEDULER_FILE, there.file or None)
        yield from differs(f"{where} {SCHEDULER_FILE}", "the content", wanted, there.content)
        if there.newer > NEWER_SECONDS:
            late = f"the file is {there.newer:.0f} s newer than the process"
            yield Mismatch(where, f"a start after {SCHEDULER_FILE} had changed", late)
        if there.status != OK:
            yield Mismatch(f"{where} /configz", str(OK), str(there.status))
            return
        told = {key: value for key, value in wanted.items() if key not in OF_THE_FILE}
        for path, asked, running in lacking(told, there.running):
            yield Mismatch(f"{where} /configz", f"{path} {asked!r}", repr(running))

    return on_every(expected.control_plane, {n: seen[n] for n in expected.control_plane if n in seen}, judge)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for key, value in above.items():
        under = found.get(key)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        found[key] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return found
