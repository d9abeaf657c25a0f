"""What came of each point, kept beside the points and printed as the table of docs/kill.md.

`python -m tests.kill.table` writes the table into the page.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.kill.points import POINTS, KillPoint

KEPT = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "kill.md"
CLEAN = "clean"
BEGIN, END = "<!-- points -->", "<!-- end of points -->"
HOWS = {
    "KILL": "SIGKILL",
    "TERM": "SIGTERM",
    "disk full": "no space is left for results",
    "memory": "no memory is left",
}
DOUBLES = {
    "up-and-up": "`infra up` twice",
    "up-and-down": "`infra up` and `infra down`",
    "run-and-down": "`run` and `infra down`",
    "run-and-reap": "`run` and `reap --all`",
    "run-and-run": "two runs that obtain the same artifact and golden image",
}


@dataclass
class Results:
    """What came of points: of this session, by name."""

    now: dict[str, str] = field(default_factory=dict)
    keeping: bool = False

    def note(self, name: str, said: str) -> None:
        """Take down what came of a point; put it among the kept ones and into the page, if they are to be kept."""
        self.now[name] = said
        if not self.keeping:
            return
        with PAGE.open(encoding="utf-8") as page_of_all:  # of several worlds, each a process
            fcntl.flock(page_of_all, fcntl.LOCK_EX)
            kept = {**read(), name: f"{said}, {datetime.now(UTC):%Y-%m-%d}"}
            KEPT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            write()


def read() -> dict[str, str]:
    """Return what is kept."""
    found: dict[str, str] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def written(doubles: Mapping[str, str], results: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield from ("| point | when | what | result |", "|---|---|---|---|")
    for point in POINTS:
        yield f"| `{point.name}` | {point.moment} | {_what(point)} | {results.get(point.name, 'not run yet')} |"
    for name, said in doubles.items():
        yield f"| `{name}` | at once | {said} | {results.get(name, 'not run yet')} |"


def page(text: str) -> str:
    """Return the page with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return "\n".join([f"{head}{BEGIN}", *written(DOUBLES, read()), f"{END}{tail}"])


def write() -> None:
    """Write the table into the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _what(point: KillPoint) -> str:
    whom = {"run": f"`{_command(point)}`", "group": "`run` and all it started", "worker": "a worker"}
    whom |= {"power": "`run` and the whole instance"}
    return f"{whom.get(point.what, point.what)}: {HOWS[point.how]}"


def _command(point: KillPoint) -> str:
    return "run" if point.command == "run" else f"infra {point.command}"


if __name__ == "__main__":
    write()
