"""Results of the nightly environments of tox.ini, in nightly.csv: write a row after a run, refuse rows that are old.

    python -m ci.nightly run ENVIRONMENT [-- ARGUMENT...]    run it by tox, and write its row
    python -m ci.nightly record ENVIRONMENT RESULT ...       write the row of a run elsewhere, or why there was none
    python -m ci.nightly check                               print what is wrong, as a code quality report

A nightly environment has the word in its description. Rows are as old as they are to the commit that has them, not to
today: a commit that passed goes on passing. This module imports nothing but the standard library, as what has tox need
not have more.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

Result = Literal["passed", "failed", "not-run"]
RESULTS: tuple[Result, ...] = get_args(Result)
TABLE = Path("ci", "nightly.csv")
TOX = Path("tox.ini")
OLDEST_DAYS = 14
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Row:
    """A run of an environment.

    commit: the 40 digits of what was tested.  date: of its start (UTC).  seconds: by the clock; 0 of one that did not
    run.  reason: why it did not run, or what failed.
    """

    environment: str
    commit: str
    date: str
    result: str
    seconds: int = 0
    reason: str = ""


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
        if len(line) != len(names) or not line[4].isdecimal():
            raise ValueError(f"{table}:{number}: expected {len(names)} columns, of which seconds is a whole number")
        rows.append(Row(line[0], line[1], line[2], line[3], int(line[4]), line[5]))
    return rows


def write(row: Row, table: Path = TABLE) -> None:
    """Put a row into the table, in the place of the environment's former one."""
    rows = sorted([*(one for one in read(table) if one.environment != row.environment), row], key=_by_name)
    made = table.with_suffix(".new")
    with made.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in rows)
    made.replace(table)


def _by_name(row: Row) -> str:
    return row.environment


def mistakes(rows: Sequence[Row], wanted: Iterable[str], day: date) -> Iterator[Wrong]:
    """Yield what is wrong with the table: environments without a row, rows that are old, failed, or say too little.

    Args:
        wanted: the environments that have a row.  day: of the commit that has the table, see `day_of_table`.
    """
    wanted = tuple(wanted)
    for number, row in enumerate(rows, 2):
        name = row.environment
        if name not in wanted:
            yield Wrong(number, f"tox.ini has no nightly environment {name}; remove the line")
            continue
        if any(one.environment == name for one in rows[: number - 2]):
            yield Wrong(number, f"{name} has a second row; remove the older one")
        yield from (Wrong(number, f"{name}: {message}") for message in _unclear(row, day))
        yield from (Wrong(number, f"{name}: {message}", blocking) for message, blocking in _unsettled(row, day))
    for name in wanted:
        if all(row.environment != name for row in rows):
            yield Wrong(1, f"{name} has no row; run it: python -m ci.nightly run {name}")


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
        yield f"the row is {days} days older than the commit, at most {OLDEST_DAYS} are allowed; {_again(row)}"


def _unsettled(row: Row, day: date) -> Iterator[tuple[str, bool]]:
    """Yield what a clear row leaves open, and whether it is refused."""
    if any(_unclear(row, day)):
        return
    if row.result == "failed":
        yield f"failed at {row.commit[:12]}: {row.reason or 'no reason given'}; mend it, then {_again(row)}", True
    elif row.result == "not-run":
        last = date.fromisoformat(row.date) + timedelta(OLDEST_DAYS)
        yield f"did not run: {row.reason}; commits after {last} are refused; {_again(row)}", False


def _again(row: Row) -> str:
    return f"python -m ci.nightly run {row.environment}"


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


def run(environment: str, arguments: Sequence[str]) -> int:
    """Run an environment by tox and write its row; return tox's exit code."""
    commit, started, began = head(), datetime.now(UTC), time.monotonic()
    program = shutil.which("tox", path=str(Path(sys.executable).parent)) or shutil.which("tox")
    if program is None:
        raise ValueError("there is no tox beside this Python nor on the PATH; `make .venv/bin/tox` installs it")
    words = ["run", "-e", environment, *(("--", *arguments) if arguments else ())]
    code = subprocess.run([program, *words], check=False).returncode
    if arguments and code == 0:
        sys.stderr.write("no row is written: with arguments of its own, a part of the environment passed\n")
        return code
    result, reason = ("passed", "") if code == 0 else ("failed", f"tox ended with {code}")
    seconds = round(time.monotonic() - began)
    write(Row(environment, commit, started.date().isoformat(), result, max(1, seconds), reason))
    return code


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ci.nightly", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="print what is wrong with the table")
    running = commands.add_parser("run", help="run an environment by tox, and write its row")
    recording = commands.add_parser("record", help="write the row of a run elsewhere, or why there was none")
    for command in (running, recording):
        command.add_argument("environment", choices=nightly())
    running.add_argument("arguments", nargs="*", help="of the environment, after --")
    recording.add_argument("result", choices=RESULTS)
    recording.add_argument("--seconds", type=int, default=0, help="how long it took")
    recording.add_argument("--commit", help="all 40 digits; default: that of the checkout")
    recording.add_argument("--date", help="YYYY-MM-DD; default: today")
    recording.add_argument("--reason", default="", help="why it did not run, or what failed")
    given = parser.parse_args(words)
    try:
        if given.command == "check":
            wrong = list(mistakes(read(), nightly(), day_of_table()))
            sys.stdout.write(as_report(wrong) + "\n")
            return 1 if any(one.blocking for one in wrong) else 0
        if given.command == "run":
            return run(given.environment, given.arguments)
        commit, today = given.commit or head(), datetime.now(UTC).date()
        row = Row(given.environment, commit, given.date or today.isoformat(), given.result, given.seconds, given.reason)
        if refused := list(_unclear(row, today)):
            raise ValueError("; ".join(refused))
        write(row)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
