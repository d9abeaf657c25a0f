"""Symptoms: lines of logs, consoles and messages of failed cells that somebody knows the meaning of.

Patterns are people's, and one may take for ever on a line that it almost matches. So a process of its own looks, with
a time limit for each file; a pattern that is over the limit is given up and named.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from harness import proc
from harness.errors import VmatrixError
from harness.interpreter import call
from harness.model import Outcome
from harness.report.cell import CellResult
from harness.report.results import RunResult, Sighting
from harness.report.words import plural
from harness.rundir import OF_MACHINES
from harness.sanitize import sanitized
from harness.spec.models import Symptom

FILE_SECONDS = 2.0  # for one pattern on one file
WHOLE_SECONDS = 60.0  # for all files of a run
ENDING_SECONDS = 30.0  # beyond those, for the file that is being looked at
LARGEST = 4 * 1024 * 1024  # bytes of a file that are looked at: its end, where failures are
LONGEST = 2000  # characters of a line that are looked at
SHOWN = 300  # characters of it that are shown
MESSAGES, CONSOLES, LOGS = "messages", "consoles", "logs"
MODULE = "harness.report.symptoms"


@dataclass(frozen=True)
class Source:
    """A text to look at: a file, or lines that are in memory."""

    cell: str
    kind: str
    file: str = ""
    text: str = ""


def look(
    result: RunResult,
    symptoms: Sequence[Symptom],
    today: date,
    *,
    seconds: float = FILE_SECONDS,
    whole: float = WHOLE_SECONDS,
) -> tuple[list[Sighting], list[str]]:
    """Look for symptoms in the failed cells of a run; return them, and a sentence for each that was given up.

    Args:
        today: symptoms whose last day is before it are not looked for.
        seconds: the time limit for a pattern on a file.  whole: the one for all, over which no further file is begun.
    """
    known = [symptom for symptom in symptoms if symptom.until is None or symptom.until >= today]
    sources = [source for cell in result.cells if cell.outcome != Outcome.PASSED for source in _sources(cell)]
    if not known or not sources:
        return [], []
    patterns = [{"name": symptom.name, "pattern": symptom.pattern, "where": list(symptom.where)} for symptom in known]
    work = {"patterns": patterns, "sources": [asdict(source) for source in sources], "seconds": seconds, "whole": whole}
    try:
        done = proc.run(call(MODULE), stdin=json.dumps(work), timeout=whole + ENDING_SECONDS)
    except VmatrixError as error:
        return [], [f"symptoms were not looked for to the end: {error.summary}"]
    answer = json.loads(done.stdout)
    means = {symptom.name: meaning(symptom) for symptom in known}
    return [Sighting(**sighting, means=means[sighting["name"]]) for sighting in answer["sightings"]], list(
        answer["given_up"]
    )


def meaning(symptom: Symptom) -> str:
    """Return what a symptom means, whose fault it mostly is, and where somebody works on it."""
    return "; ".join(filter(None, (symptom.means, f"blame {symptom.blame}" if symptom.blame else "", symptom.issue)))


def _sources(cell: CellResult) -> Iterator[Source]:
    """Yield what is looked at of a cell's last attempt: what failed says, and what was collected."""
    texts = [text for step in cell.last_failures for text in (step.summary, step.detail)]
    texts += [check.detail for check in cell.failed_checks]
    yield Source(cell.id, MESSAGES, text="\n".join(filter(None, texts)))
    folder = Path(cell.logs(cell.last_attempt))
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            console = path.stem.endswith(tuple(f"-{end}" for end in OF_MACHINES))
            yield Source(cell.id, CONSOLES if console else LOGS, file=str(path))


class _TimeIsUp(Exception):
    """The limit of a pattern on a file."""


def search(
    patterns: Iterable[Mapping[str, Any]], sources: Sequence[Mapping[str, str]], seconds: float, whole: float
) -> Any:
    """Look at texts, in the process that exists for it; return what was seen and what was given up, as plain data."""
    left = {pattern["name"]: (re.compile(pattern["pattern"]), pattern["where"]) for pattern in patterns}
    sightings: dict[tuple[str, str], Sighting] = {}
    given_up: list[str] = []
    signal.signal(signal.SIGALRM, _ring)
    end = time.monotonic() + whole
    for number, source in enumerate(sources):
        if time.monotonic() > end:
            left_out = plural(len(sources) - number, "file")
            given_up.append(f"symptoms were not looked for in {left_out} of {len(sources)}: {whole:g} s were over")
            break
        lines = _lines(source)
        for name, (pattern, where) in list(left.items()):
            if source["kind"] not in where:
                continue
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                fitting = [line for line in lines if pattern.search(line)]
            except _TimeIsUp:
                del left[name]
                what = source["file"] or "a message"
                given_up.append(f"symptom {name!r} took more than {seconds:g} s on {what}: simplify its pattern")
                continue
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if fitting:
                key = source["cell"], name
                before = sightings.get(key, Sighting(*key, 0, fitting[0].strip()[:SHOWN], source["file"]))
                sightings[key] = Sighting(*key, before.count + len(fitting), before.line, before.file)
    plain = [
        {name: value for name, value in asdict(sighting).items() if name != "means"} for sighting in sightings.values()
    ]
    return {"sightings": plain, "given_up": given_up}


def _ring(_number: int, _frame: object) -> None:
    raise _TimeIsUp


def _lines(source: Mapping[str, str]) -> list[str]:
    if not source["file"]:
        return [sanitized(line)[:LONGEST] for line in source["text"].splitlines()]
    try:
        with Path(source["file"]).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LARGEST))
            content = file.read(LARGEST)
    except OSError:
        return []  # collected by another process, and gone meanwhile: nothing can be seen in it
    return [sanitized(line)[:LONGEST] for line in content.decode("utf-8", "replace").splitlines()]


def lines_of(sightings: Sequence[Sighting]) -> list[str]:
    """Return a line for each symptom that was seen: what it means, in how many cells, and the first line."""
    lines = []
    for name in dict.fromkeys(sighting.name for sighting in sightings):
        own = [sighting for sighting in sightings if sighting.name == name]
        cells = f"{plural(len(own), 'cell')}, {plural(sum(sighting.count for sighting in own), 'line')}"
        where = f"{own[0].cell} {Path(own[0].file).name}".strip()
        lines.append(f"{name}: {own[0].means} ({cells}; {where}: {own[0].line})")
    return lines


def idle(symptoms: Sequence[Symptom], nights: Sequence[Collection[str]], most: int = 60) -> list[str]:
    """Return the symptoms that none of the last nights had, where there are so many: they could go.

    Args:
        nights: the names that each night had, oldest first.
    """
    recent = nights[-most:]
    return (
        [symptom.name for symptom in symptoms if not any(symptom.name in names for names in recent)]
        if len(recent) >= most
        else []
    )


if __name__ == "__main__":
    json.dump(search(**json.load(sys.stdin)), sys.stdout)
