"""Verdicts of specs, from ginkgo's JUnit report, or from its log where it was killed; a missing spec has failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

SPEC_PREFIX = "[It] "  # suite nodes such as [SynchronizedBeforeSuite] are test cases too
TEXT_LIMIT = 4000  # characters of a failure's text: the message and its location come first
OWN_SKIP = "skipped - "  # ginkgo's words before a spec's own reason (reporters/junit_report.go)
BEFORE_SUITE = "BeforeSuite]"  # of a suite's nodes, the one without which no spec begins
SUITE_TIMED_OUT = "suite timeout occurred"  # a spec may have a limit of its own, which says "spec" or "node"
CUT_SHORT = "cut short: "  # what is said of a spec that the end of the time met before its verdict
NEVER_BEGAN = f"{CUT_SHORT}time was up before it began"
UNPULLED = re.compile(r'Failed to pull image \\*"([^"\\]+)')  # kubelet's event, which e2e.test prints after a failure
LOG_LIMIT = 1500  # characters of the end of the suite's log, which has what it waited for


class SpecOutcome(StrEnum):
    """How a spec ended.

    `not-run`: it was not started, or failed, because an image is missing, or time was up before its turn.  `skipped`:
    the spec itself said that this cluster is none for it.
    """

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_RUN = "not-run"


@dataclass(frozen=True)
class SpecVerdict:
    """One spec's outcome, its duration in seconds, why it did not pass, and the images that it lacks.

    unpulled: the images that its pods asked for in vain, if it failed, as the events of its namespace name them.
    """

    outcome: SpecOutcome
    seconds: float = 0.0
    text: str = ""
    lacks: tuple[str, ...] = ()
    unpulled: tuple[str, ...] = ()

    @property
    def cut_short(self) -> bool:
        """Tell whether time was up before this spec had its verdict."""
        return self.outcome is not SpecOutcome.PASSED and self.text.startswith(CUT_SHORT)


def read_verdicts(junit: Path, names: Iterable[str]) -> dict[str, SpecVerdict]:
    """Return the verdict of each named spec.

    Args:
        junit: the junit_01.xml that e2e.test wrote into its --report-dir; it lists every spec, run or not.
    """
    specs = tuple(names)
    if not junit.is_file():
        lost = SpecVerdict(
            SpecOutcome.FAILED, text=f"ginkgo wrote no report to {junit}: it was killed or could not start"
        )
        return dict.fromkeys(specs, lost)
    try:
        cases = list(ElementTree.parse(junit).iter("testcase"))  # noqa: S314 - our own run's report
    except ElementTree.ParseError as error:
        return dict.fromkeys(specs, SpecVerdict(SpecOutcome.FAILED, text=f"{junit} is not XML: {error}"))
    suite_failure, cut = _suite_failure(cases), any(_met_the_end(case) for case in cases)
    verdicts: dict[str, list[SpecVerdict]] = {}
    for case in cases:
        name = case.get("name", "")
        if name.startswith(SPEC_PREFIX):
            verdicts.setdefault(name.removeprefix(SPEC_PREFIX), []).append(_verdict(case, suite_failure, cut=cut))
    return {name: _only(verdicts.get(name, []), suite_failure) for name in specs}


def _only(verdicts: Sequence[SpecVerdict], suite_failure: str) -> SpecVerdict:
    """Return the verdict of a spec; one that the report lacks, or has twice, has failed."""
    if len(verdicts) == 1:
        return verdicts[0]
    if suite_failure:
        return SpecVerdict(SpecOutcome.FAILED, text=f"the spec was not run: {suite_failure}")
    count = len(verdicts)
    return SpecVerdict(
        SpecOutcome.FAILED, text=f"the report has {count} specs of this name: is the list that of this minor?"
    )


def _verdict(case: ElementTree.Element, suite_failure: str, *, cut: bool) -> SpecVerdict:
    """Return what one test case says; `cut`: time was up before the suite's end."""
    status = case.get("status", "")
    seconds = float(case.get("time") or 0.0)
    if status == "passed":
        return SpecVerdict(SpecOutcome.PASSED, seconds)
    text = _failure_text(case)
    if status == "skipped":  # the spec skipped itself, or was not reached
        own = text.startswith(OWN_SKIP) and not suite_failure
        if cut and not own and not suite_failure:
            return SpecVerdict(SpecOutcome.NOT_RUN, seconds, NEVER_BEGAN)
        text = f"the spec was skipped: {text or suite_failure or 'no reason given'}"
        return SpecVerdict(SpecOutcome.SKIPPED if own else SpecOutcome.FAILED, seconds, text)
    unpulled = tuple(sorted(set(UNPULLED.findall(case.findtext("system-err") or ""))))
    text = text or f"status {status!r} without a message"
    text = f"{CUT_SHORT}time was up after {seconds:.0f} s of it\n{text}" if _met_the_end(case) else text
    return SpecVerdict(SpecOutcome.FAILED, seconds, text, unpulled=unpulled)


def _met_the_end(case: ElementTree.Element) -> bool:
    """Tell whether the suite's time was up, or it was told to end, while this ran."""
    status = case.get("status")
    return status == "interrupted" or (status == "timedout" and SUITE_TIMED_OUT in _failure_text(case))


def _suite_failure(cases: Iterable[ElementTree.Element]) -> str:
    """Return why no spec began, "" where they did: what is wrong after the last one is not a reason for that."""
    for case in cases:
        if BEFORE_SUITE in case.get("name", "") and case.get("status") not in ("passed", "skipped"):
            log = (case.findtext("system-err") or "").strip()
            return f"{case.get('name')}: {_failure_text(case)}\n{log[-LOG_LIMIT:]}"
    return ""


def _failure_text(case: ElementTree.Element) -> str:
    for kind in ("failure", "error", "skipped"):
        element = case.find(kind)
        if element is not None:
            text = "\n".join(part for part in (element.get("message", ""), element.text or "") if part)
            return text.strip()[:TEXT_LIMIT]
    return ""


LINE = "-" * 30  # before and after what the log says of a spec
HEAD = re.compile(r"^\S (?:\[(?P<state>[A-Z!]+)\] )?\[(?P<seconds>[0-9.]+) seconds\]$")  # of a spec, not of the suite
NODE = re.compile(r"\[(?:It|BeforeEach|JustBeforeEach|AfterEach|JustAfterEach|DeferCleanup[^\]]*)\]")  # what failed
CUT = frozenset({"TIMEDOUT", "INTERRUPTED"})
SKIPPED = "SKIPPED"


def read_log(log: Path, names: Iterable[str]) -> dict[str, SpecVerdict]:
    """Return the verdict of each named spec: of those that the log does not have, that they were not run to their end.

    Args:
        log: what ginkgo wrote with `-v`; it may end anywhere.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    told = {_plain(name): verdict for name, verdict in _told(text.splitlines())}
    unknown = SpecVerdict(SpecOutcome.NOT_RUN, text=f"{NEVER_BEGAN}, or had ended")
    return {name: told.get(_plain(name), unknown) for name in names}


def _told(lines: list[str]) -> Iterator[tuple[str, SpecVerdict]]:
    ends = [number for number, line in enumerate(lines) if line == LINE]
    for begin, end in pairwise([*ends, len(lines)]):
        block = lines[begin + 1 : end]
        head = HEAD.match(block[0]) if len(block) > 1 else None
        if head is not None and head["state"] != SKIPPED:
            yield block[1], _logged_verdict(head["state"], float(head["seconds"]), "\n".join(block[2:]).strip())


def _logged_verdict(state: str | None, seconds: float, text: str) -> SpecVerdict:
    if state is None:
        return SpecVerdict(SpecOutcome.PASSED, seconds)
    cut = f"{CUT_SHORT}time was up after {seconds:.0f} s of it\n" if state in CUT else ""
    return SpecVerdict(SpecOutcome.FAILED, seconds, cut + text[-TEXT_LIMIT:])


def _plain(name: str) -> str:
    """Return a name without the node that failed, which the log puts into it."""
    return " ".join(NODE.sub(" ", name).split())
