"""Documentation as data: prose, code, links and tables of a Markdown page, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.paths import project_dir

ROOT = project_dir()


@dataclass(frozen=True)
class Line:
    """One line of a page: its number, its text, whether it lies in a block of code, and whether that is a diff."""

    number: int
    text: str
    code: bool
    diff: bool


def pages() -> list[Path]:
    """Return every page of documentation."""
    folders = (ROOT / "docs", ROOT / "deploy")
    found = [file for folder in folders for file in folder.rglob("*.md")]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(found)]


def lines(text: str) -> Iterator[Line]:
    """Yield the lines of a page; the fences of its blocks of code count as code."""
    fenced = diff = False
    for number, line in enumerate(text.splitlines(), start=1):
        fence = line.lstrip().startswith("```")
        fenced, diff = fenced ^ fence, line.lstrip().startswith("```diff") if fence else diff
        yield Line(number, line, fenced or fence or line.startswith("    "), diff)


def spans(text: str) -> Iterator[str]:
    """Yield what stands between backticks, outside of blocks of code; a span may go over two lines."""
    prose = "\n".join("" if line.code else line.text for line in lines(text))
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))


def shell(text: str) -> Iterator[str]:
    """Yield the commands in blocks of code, without prompt and comment; continued lines are one."""
    code = "\n".join(line.text for line in lines(text) if line.code and "```" not in line.text)
    for line in code.replace("\\\n", " ").splitlines():
        yield re.sub(r"(^|\s)#.*", "", line).strip().removeprefix("$ ")


def links(text: str) -> Iterator[str]:
    """Yield the targets of links and images."""
    prose = "\n".join("" if line.code else line.text for line in lines(text))
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)


def cells(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every cell of every table."""
    for line in lines(text):
        if not line.code and line.text.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.text.strip().strip("|")):
                yield line.number, cell.strip()


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and GitLab make them."""
    headings = (line.text.lstrip("#") for line in lines(text) if not line.code and line.text.startswith("#"))
    plain = (re.sub(r"[^\w\s-]", "", heading.strip().lower()) for heading in headings)
    return {re.sub(r"\s", "-", heading) for heading in plain}
