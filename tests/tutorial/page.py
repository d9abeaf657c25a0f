"""A tutorial as what its reader does: files to write, commands to run, and what these print.

A `sh` block is commands. A `console` block is commands after `$ `, each followed by its whole output, in which a line
`...` stands for any lines. A block whose first line names a file is that file. `text` blocks are only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:# |\{# )(\S+\.\S+?)(?: #\})?\n")
READ = "text"
PROGRESS = re.compile(r"\([^()]+ so far\)$")  # how a line ends that tells of a step that takes long, on a busy host
# What differs between two runs of the same commands, and what stands for it.
VARIES = (
    (re.compile(r"\b(?:\d+ min )?\d+(?:\.\d+)? s\b|\b\d+:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?\b"), "DATE"),
    (re.compile(r"(?<=runs/)[a-z0-9]{6}\b|(?<=--run )[a-z0-9]{6}\b"), "RUN"),
    (re.compile(r"https?://[0-9.:]+|(?<![\w.])\d+(?:\.\d+){3}(?::\d+)?(?![\w.])"), "ADDRESS"),
    (re.compile(r"(?<=\s)\d+[smh](?:\d+[smh])?(?=\s|$)"), "AGE"),
    (re.compile(r" --infra-name \S+"), ""),  # of an instance that is not called `default`
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True)
class File:
    """A file to write."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command to run, and what it prints; None where the page does not say."""

    line: str
    prints: str | None = None


def steps(page: str) -> Iterator[File | Command]:
    """Yield what the reader of a page does, in its order. Raises ValueError for a block that is none of the above."""
    for language, text in FENCE.findall(page):
        if language == "sh":
            yield Command(text)
        elif language == "console":
            yield from _commands(text)
        elif (name := NAMED.match(text)) is not None:
            yield File(name[1], text)
        elif language != READ:
            raise ValueError(f"a block of {language} is neither a command nor a file: {text[:60]!r}")


def _commands(text: str) -> Iterator[Command]:
    first, *others = re.split(r"^\$ ", text, flags=re.MULTILINE)
    if first or not others:
        raise ValueError(f"a console block begins with a command: {text[:60]!r}")
    for other in others:
        line, _, prints = other.partition("\n")
        yield Command(line, prints)


def section(page: str, title: str) -> str:
    """Return a section of a page. Raises ValueError if it has none of that title."""
    _, found, rest = f"\n{page}".partition(f"\n## {title}\n")
    if not found:
        raise ValueError(f"the page has no section {title!r}")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def parted(text: str, heading: str) -> tuple[str, str]:
    """Return what is before a heading, and the rest. Raises ValueError if the text has no such line."""
    before, found, rest = text.partition(f"\n{heading}\n")
    if not found:
        raise ValueError(f"there is no {heading!r}")
    return f"{before}\n", rest


def fits(prints: str, seen: str) -> bool:
    """Tell whether what a command printed is what the page shows, but for what always differs."""
    shown = [line for line in _lines(prints) if not PROGRESS.search(line)]
    wanted = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(f"{line}\n") for line in shown)
    printed = [line for line in _lines(seen) if not PROGRESS.search(line)]
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in printed)) is not None


def _lines(text: str) -> list[str]:
    for pattern, word in VARIES:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.strip("\n").splitlines()]
