"""Whether the checks that a product leaves out exist, and whether any are left (`checks.leave_out` of product.yml)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import read_bytes
from harness.spec.declared import EACH, find, texts
from harness.spec.lines import Finding
from harness.spec.suites import LIFE, suites_of

CHECK = re.compile(r"^(?:async )?def (test_\w+)\(|^class (Test\w*)|^[ \t]+(?:async )?def (test_\w+)\(", re.MULTILINE)


def check(content: Any, project: Path) -> Iterator[Finding]:
    """Find globs that match no check, and globs that together leave none."""
    globs = list(texts(content, "product", "checks", "leave_out", EACH, "check"))
    names = titles(project) if globs else []
    if not names:
        return
    for at, glob in globs:
        if not any(fits(name, glob) for name in names):
            yield (
                at,
                f"{glob!r} matches no check; `vmatrix explain CELL` lists their files",
            )
    if all(any(fits(name, glob) for _, glob in globs) for name in names):
        for at, _ in find(content, "product", "checks", "leave_out"):
            yield at, "leaves out every check, so that a cell would prove nothing; leave one in"


def fits(title: str, glob: str) -> bool:
    """Tell whether a glob means a check, `suite: name`; with or without the conformance spec in its brackets."""
    return fnmatchcase(title, glob) or fnmatchcase(title.partition("[")[0], glob)


def fits_any(project: Path, glob: str) -> bool:
    """Tell whether a glob means any check; with no check to be found, none can be missed."""
    names = titles(project)
    return not names or any(fits(name, glob) for name in names)


def titles(project: Path) -> list[str]:
    """Return every check as `suite: name`: those of the project's own suites and those that ship."""
    files = [(suite.name, file) for suite in suites_of(project).values() for file in suite.files if suite.name != LIFE]
    return sorted({f"{suite}: {name}" for suite, file in files for name in _names(_text(file))})


def _names(text: str) -> Iterator[str]:
    """Yield the checks of a file; those of a class with its name before theirs."""
    within = ""
    for alone, of_class, inside in CHECK.findall(text):
        within = of_class or within
        if alone or inside:
            yield alone or f"{within}::{inside}"


def _text(file: Path) -> str:
    """Return what a file holds; what is wrong with one of the project's own is said when it is loaded."""
    try:
        return read_bytes(file).decode(errors="replace")
    except BadInput:
        return ""
