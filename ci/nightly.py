"""Results of the nightly environments of tox.ini, in nightly.csv: write a row after a run, refuse rows that are old.

    python -m ci.nightly run ENVIRONMENT [-- ARGUMENT...]    run it by tox, and write its row
    python -m ci.nightly run ENVIRONMENT --part PART         run one part of a long one, and write the part's row
    python -m ci.nightly turns --minutes N                   run what is due, as much as fits, and write the rows
    python -m ci.nightly record ENVIRONMENT RESULT ...       write the row of a run elsewhere, or why there was none
    python -m ci.nightly check                               print what is wrong, as a code quality report

A nightly environment has the word in its description. What takes longer than an hour has parts (nightly.toml), each
with its own row. Rows are as old as they are to the commit that has them, not to today: a commit that passed goes on
passing. This module imports nothing but the standard library, as what has tox need not have more.
"""

from __future__ import annotations

import argparse
import configparser
import csv
import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

Result = Literal["passed", "failed", "not-run"]
RESULTS: tuple[Result, ...] = get_args(Result)
TABLE = Path("ci", "nightly.csv")
PARTS = Path("ci", "nightly.toml")
TOX = Path("tox.ini")
OLDEST_DAYS = 14
UNKNOWN_SECONDS = 3600  # what has never run is taken to last that long
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, order=True)
class Job:
    """What has a row: an environment, or a part of one.

    part: its name in nightly.toml, I/N of one with shards; "" for an environment that runs as a whole.
    """

    environment: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.environment} {self.part}".strip()

    @property
    def again(self) -> str:
        """The command that runs it."""
        part = f" --part {self.part}" if self.part else ""
        return f"python -m ci.nightly run {self.environment}{part}"


@dataclass(frozen=True)
class Row:
    """A run of an environment, or of a part of it.

    part: as in Job.  commit: the 40 digits of what was tested.  date: of its start (UTC).  seconds: by the clock; 0 of
    one that did not run.  reason: why it did not run, or what failed.
    """

    environment: str
    part: str
    commit: str
    date: str
    result: str
    seconds: int = 0
    reason: str = ""

    @property
    def job(self) -> Job:
        """What ran."""
        return Job(self.environment, self.part)


@dataclass(frozen=True)
class Wrong:
    """What is wrong with a line of the table; `blocking`: the gate refuses it, otherwise it names it."""

    line: int
    message: str
    blocking: bool = True


def environments(tox: Path = TOX) -> dict[str, str]:
    """Return the environments of tox.ini, each with its description."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(tox, encoding="utf-8")
    names = [name for name in parser.sections() if name.startswith("testenv:")]
    return {name.removeprefix("testenv:"): parser[name].get("description", "") for name in names}


def nightly(tox: Path = TOX) -> tuple[str, ...]:
    """Return the names of the nightly environments."""
    known = environments(tox)
    return tuple(name for name, description in known.items() if re.search(r"\bnightly\b", description))


def jobs(tox: Path = TOX, parts: Path = PARTS) -> dict[Job, tuple[str, ...]]:
    """Return what has a row, each with the arguments that tox passes to the environment's command.

    Raises ValueError where nightly.toml has an environment that is not nightly, or one with neither shards nor parts.
    """
    names = nightly(tox)
    split = tomllib.loads(parts.read_text(encoding="utf-8")) if parts.exists() else {}
    if unknown := sorted(set(split) - set(names)):
        raise ValueError(f"{parts}: tox.ini has no nightly environment {', '.join(unknown)}; remove the table")
    return {job: words for name in names for job, words in _parts(name, split.get(name), parts)}


def _parts(name: str, split: Mapping[str, object] | None, file: Path) -> Iterator[tuple[Job, tuple[str, ...]]]:
    if split is None:
        yield Job(name), ()
        return
    match split:
        case {"shards": int(count), **more} if count > 1 and not more:
            for index in range(1, count + 1):
                yield Job(name, f"{index}/{count}"), ("--shard", f"{index}/{count}")
        case {"folder": str(folder), "parts": dict(named), **more} if named and not more:
            for part, paths in named.items():
                yield Job(name, part), tuple(f"{folder}/{path}" for path in paths)
        case _:
            raise ValueError(f"{file}: [{name}] needs `shards`, two or more, or `folder` and `parts`")


def read(table: Path = TABLE) -> list[Row]:
    """Return the rows of the table. Raises ValueError where a line has other columns."""
    if not table.exists():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    names = [field.name for field in fields(Row)]
    if lines[:1] != [names]:
        raise ValueError(f"{table}:1: expected the columns {','.join(names)}")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names) or not line[5].isdecimal():
            raise ValueError(f"{table}:{number}: expected {len(names)} columns, of which seconds is a whole number")
        environment, part, commit, day, result, seconds, reason = line
        rows.append(Row(environment, part, commit, day, result, int(seconds), reason))
    return rows


def write(row: Row, table: Path = TABLE) -> None:
    """Put a row into the table, in the place of its former one."""
    rows = sorted([*(other for other in read(table) if other.job != row.job), row], key=lambda each: each.job)
    made = table.with_suffix(".new")
    with made.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in rows)
    made.replace(table)


def mistakes(rows: Sequence[Row], expected: Iterable[Job], day: date) -> Iterator[Wrong]:
    """Yield what is wrong with the table: jobs without a row, rows that are old, failed, or say too little.

    Args:
        expected: what has a row.  day: of the commit that has the table, see `day_of_table`.
    """
    expected = tuple(expected)
    for number, row in enumerate(rows, 2):
        if row.job not in expected:
            yield Wrong(number, f"there is no nightly environment or part {row.job}; remove the line")
            continue
        if any(other.job == row.job for other in rows[: number - 2]):
            yield Wrong(number, f"{row.job} has a second row; remove the older one")
        yield from (Wrong(number, f"{row.job}: {message}") for message in _unclear(row, day))
        yield from (Wrong(number, f"{row.job}: {message}", blocking) for message, blocking in _unsettled(row, day))
    for job in expected:
        if all(row.job != job for row in rows):
            yield Wrong(1, f"{job} has no row; run it: {job.again}")


def _unclear(row: Row, day: date) -> Iterator[str]:
    """Yield what a row says wrongly or too little of, or that it is old; no such row is written."""
    if row.result not in RESULTS:
        yield f"the result is {row.result!r}; use {', '.join(RESULTS)}"
    if COMMIT.fullmatch(row.commit) is None:
        yield f"the commit is {row.commit!r}; write all 40 digits"
    if row.result == "passed" and not row.seconds:
        yield "it passed within no time; write how long it took"
    if row.result == "not-run" and not row.reason:
        yield "it did not run, and the row does not say why"
    try:
        days = (day - date.fromisoformat(row.date)).days
    except ValueError:
        yield f"the date is {row.date!r}; write YYYY-MM-DD"
        return
    if days < 0:
        yield f"{row.date} is later than {day}, the day of the commit; correct the date"
    elif days > OLDEST_DAYS:
        yield f"the row is {days} days older than the commit, at most {OLDEST_DAYS} are allowed; {row.job.again}"


def _unsettled(row: Row, day: date) -> Iterator[tuple[str, bool]]:
    """Yield what a clear row leaves open, and whether it is refused."""
    if any(_unclear(row, day)):
        return
    if row.result == "failed":
        yield f"failed at {row.commit[:12]}: {row.reason or 'no reason given'}; mend it, then {row.job.again}", True
    elif row.result == "not-run":
        last = date.fromisoformat(row.date) + timedelta(OLDEST_DAYS)
        yield f"did not run: {row.reason}; commits after {last} are refused; {row.job.again}", False


def as_report(wrong: Iterable[Wrong], table: Path = TABLE) -> str:
    """Return what is wrong as GitLab's code quality report."""
    return json.dumps(
        [
            {
                "check_name": "refused" if one.blocking else "not-run",
                "description": one.message,
                "severity": "major" if one.blocking else "info",
                "location": {"path": str(table), "lines": {"begin": one.line}},
            }
            for one in wrong
        ],
        indent=1,
    )


def head() -> str:
    """Return the commit of the checkout. Raises ValueError if tracked files differ from it: a row names a commit."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{TABLE}")
    if changed:
        raise ValueError(f"a row names a commit, and these files differ from it: {', '.join(changed.split())}")
    return _git("rev-parse", "HEAD")


def day_of_table() -> date:
    """Return the day (UTC) of the checkout's commit; today where the table differs from it, to be committed now."""
    if _git("status", "--porcelain", "--", str(TABLE)):
        return datetime.now(UTC).date()
    return datetime.fromtimestamp(int(_git("show", "--no-patch", "--format=%ct", "HEAD")), UTC).date()


def _git(*words: str) -> str:
    git = shutil.which("git") or "git"
    return subprocess.run([git, *words], capture_output=True, text=True, check=True).stdout.strip()


def run(job: Job, arguments: Sequence[str] = ()) -> int:
    """Run an environment, or a part of it, by tox and write its row; return tox's exit code.

    arguments: for the environment's command; with any, what passes has no row, and what fails has that of the job.
    """
    commit, started, began = head(), datetime.now(UTC), time.monotonic()
    program = shutil.which("tox", path=str(Path(sys.executable).parent)) or shutil.which("tox")
    if program is None:
        raise ValueError("there is no tox beside this Python nor on the PATH; `make .venv/bin/tox` installs it")
    every = jobs()
    passed_on = [*every.get(job, ()), *arguments]
    words = ["run", "-e", job.environment, *(("--", *passed_on) if passed_on else ())]
    code = subprocess.run([program, *words], check=False).returncode
    if arguments and (code == 0 or job not in every):
        sys.stderr.write("no row is written: with arguments of its own, a part of the environment ran\n")
        return code
    result, reason = ("passed", "") if code == 0 else ("failed", f"tox ended with {code}")
    seconds = max(1, round(time.monotonic() - began))
    write(Row(job.environment, job.part, commit, started.date().isoformat(), result, seconds, reason))
    return code


def due(known: Mapping[Job, Row], expected: Iterable[Job]) -> list[Job]:
    """Return what to run next, in this order: what has not passed, then what passed longest ago; of equals, the short.

    What failed comes before what has not run: it may be mended, and the gate refuses it.
    """
    order = {"failed": 0, "not-run": 1, "passed": 2}

    def turn(job: Job) -> tuple[int, str, int, Job]:
        row = known.get(job)
        result = row.result if row is not None else "not-run"
        return order.get(result, 0), row.date if row is not None and result == "passed" else "", lasts(row), job

    return sorted(expected, key=turn)


def lasts(row: Row | None) -> int:
    """Return how many seconds a run is expected to last: as the last one, if one passed."""
    return row.seconds if row and row.result == "passed" else UNKNOWN_SECONDS


def turns(minutes: float, run_job: Callable[[Job], int] = run) -> int:
    """Run what is due, one after the other, as long as the next is expected to end in time; return 1 if any failed."""
    end, codes = time.monotonic() + 60 * minutes, []
    known = {row.job: row for row in read()}
    for job in due(known, jobs()):
        if time.monotonic() + lasts(known.get(job)) > end:
            continue
        sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {job}\n")
        codes.append(run_job(job))
    if not codes:
        shortest = min(lasts(known.get(job)) for job in jobs())
        sys.stderr.write(f"nothing ends within {minutes:g} minutes; the shortest takes --minutes {shortest / 60:.0f}\n")
    return 1 if any(codes) else 0


def _chosen(environment: str, part: str | None, arguments: Sequence[str]) -> list[Job]:
    """Return what the command line names: a part, or all parts. Raises ValueError for a part that there is not."""
    mine = [job for job in jobs() if job.environment == environment]
    if part is None:
        return [Job(environment)] if arguments else mine
    if Job(environment, part) not in mine:
        known = ", ".join(job.part for job in mine if job.part) or "no parts"
        raise ValueError(f"{environment} has no part {part}; it has {known}")
    return [Job(environment, part)]


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ci.nightly", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="print what is wrong with the table")
    running = commands.add_parser("run", help="run an environment by tox, and write its row, or those of its parts")
    recording = commands.add_parser("record", help="write the row of a run elsewhere, or why there was none")
    for command in (running, recording):
        command.add_argument("environment", choices=nightly())
        command.add_argument("--part", help="of an environment that nightly.toml splits")
    running.add_argument("arguments", nargs="*", help="of the environment, after --")
    turning = commands.add_parser("turns", help="run what is due by tox, as much as fits, and write the rows")
    turning.add_argument("--minutes", type=float, required=True, help="within which it is expected to end")
    recording.add_argument("result", choices=RESULTS)
    recording.add_argument("--seconds", type=int, default=0, help="how long it took")
    recording.add_argument("--commit", help="all 40 digits; default: that of the checkout")
    recording.add_argument("--date", help="YYYY-MM-DD; default: today")
    recording.add_argument("--reason", default="", help="why it did not run, or what failed")
    try:
        return _done(parser.parse_args(words))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _done(options: argparse.Namespace) -> int:
    if options.command == "check":
        wrong = list(mistakes(read(), jobs(), day_of_table()))
        sys.stdout.write(as_report(wrong) + "\n")
        return 1 if any(one.blocking for one in wrong) else 0
    if options.command == "turns":
        return turns(options.minutes)
    chosen = _chosen(options.environment, options.part, getattr(options, "arguments", ()))
    if options.command == "run":
        return max(run(job, options.arguments) for job in chosen)
    commit, today = options.commit or head(), datetime.now(UTC).date()
    for job in chosen:
        day = options.date or today.isoformat()
        row = Row(job.environment, job.part, commit, day, options.result, options.seconds, options.reason)
        if refused := list(_unclear(row, today)):
            raise ValueError("; ".join(refused))
        write(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
