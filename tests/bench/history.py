"""The history of figures: rows of history.csv that `--record` adds, and the latest of each in docs/benchmarks.md."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import date
from pathlib import Path

from tests.bench.figures import Figure, Ledger

ROOT = Path(__file__).resolve().parents[2]
HISTORY = Path(__file__).with_name("history.csv")
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- latest figures: begin -->\n", "<!-- latest figures: end -->\n"


@dataclass(frozen=True)
class Row:
    """A figure of one day, as history.csv has it: all texts.

    stretch: how other load stretched time before it; "" where that was not measured.  samples: with blanks between.
    """

    day: str
    commit: str
    host: str
    stretch: str
    figure: str
    unit: str
    median: str
    samples: str
    target: str


def rows_of(ledger: Ledger, day: date, commit: str) -> list[Row]:
    """Return the figures of a bench as rows; one that is part of another has that one's name first."""
    rows, whole = [], ""
    host = f"{ledger.host['cores']} x {ledger.host['processor']}"
    stretch = f"{max(ledger.stretch.values()):g}" if ledger.stretch else ""
    for figure in ledger.figures:
        part = figure.name.removeprefix("- ")
        whole = whole if part != figure.name else figure.name
        name = f"{whole}: {part}" if part != figure.name else part
        rows.append(_row(figure, name, (day.isoformat(), commit, host, stretch)))
    return rows


def _row(figure: Figure, name: str, circumstances: tuple[str, str, str, str]) -> Row:
    target = "" if figure.target is None else f"{figure.target:g}"
    samples = " ".join(f"{value:g}" for value in figure.values)
    return Row(*circumstances, name, figure.unit, f"{figure.value:g}", samples, target)


def read(file: Path = HISTORY) -> list[Row]:
    """Return all rows, the oldest first."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [Row(**row) for row in csv.DictReader(lines)]


def append(rows: Sequence[Row], file: Path = HISTORY, page: Path = PAGE) -> None:
    """Add rows to the history, and show the latest of each figure on the page."""
    with file.open("a", encoding="utf-8", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows(map(astuple, rows))
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}{latest(read(file))}{END}{after}", encoding="utf-8")


def latest(rows: Sequence[Row]) -> str:
    """Return a table in Markdown with the last row of each figure, in the order in which figures first came."""
    last = {row.figure: row for row in rows}
    lines = ["| figure | median | target | samples | day | stretch |", "|---|---|---|---|---|---|"]
    for row in last.values():
        unit = f" {row.unit}" if row.unit not in ("", "n", "x") else ""
        target = f"{row.target}{unit}" if row.target else ""
        samples = row.samples.replace(" ", ", ") if " " in row.samples else ""
        lines.append(f"| {row.figure} | {row.median}{unit} | {target} | {samples} | {row.day} | {row.stretch} |")
    return "\n".join(lines) + "\n"


def commit() -> str:
    """Return the short hash of the commit that is measured, with a plus sign if files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
