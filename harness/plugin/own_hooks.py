"""What the project's own checks may do to pytest: end it, answer its hooks, take checks out or mark them.

pytest asks a conftest.py first, and takes its answer for the one of vmatrix: nothing that a run promised may vanish so.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.paths import enclosing_project, named_project
from harness.plugin import fixtures
from harness.spec.suites import CHECKS

# Hooks whose answer decides what is collected or run, or how it ended, in the place of pytest and of vmatrix.
DECIDING = frozenset(
    f"pytest_{name}"
    for name in (
        *("cmdline_main", "collection", "make_collect_report", "collect_file", "collect_directory", "ignore_collect"),
        *("pycollect_makemodule", "pycollect_makeitem", "runtestloop", "runtest_protocol", "pyfunc_call"),
        "report_from_serializable",
    )
)
ORDERING = "pytest_collection_modifyitems"  # of which the plain form can be watched
IGNORING = ("collect_ignore", "collect_ignore_glob")  # variables of a conftest.py
XFAIL = "xfail"
HIDING = ("skip", "skipif", XFAIL)  # marks that no check of vmatrix may get; the project's own may be skipped


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong, where, and what to do."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def folder_in(args: Sequence[str]) -> Path | None:
    """Return the project's folder of own checks, if the arguments of pytest name it or something in it."""
    project = named_project() or enclosing_project()
    folder = (project / CHECKS).absolute() if project is not None else None
    given = [Path(word.partition("::")[0]).absolute() for word in args]
    return folder if folder is not None and any(path.is_relative_to(folder) for path in given) else None


def make_importable(args: Sequence[str]) -> None:
    """Let own checks import the modules that lie beside them; installed packages come first."""
    folder = folder_in(args)
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))


def deciding_hooks(manager: pytest.PytestPluginManager, folder: Path) -> Iterator[Mistake]:
    """Yield the hooks and variables of a folder's conftest.py by which checks would vanish, or pass without a run."""
    for caller in (getattr(manager.hook, name) for name in sorted({*DECIDING, ORDERING} & set(vars(manager.hook)))):
        for hook in caller.get_hookimpls():
            where = _place_of(hook)
            if where is None or not where[0].is_relative_to(folder):
                continue
            if caller.name in DECIDING:
                yield Mistake(*where, f"the hook {caller.name} decides for vmatrix what is run; remove it")
            elif hook.wrapper or hook.hookwrapper:
                yield Mistake(*where, f"the hook {caller.name} is a wrapper; write it without `yield`")
    for plugin in manager.get_plugins():
        file = Path(getattr(plugin, "__file__", None) or "")
        for name in IGNORING if file.name == "conftest.py" and file.is_relative_to(folder) else ():
            if getattr(plugin, name, None):
                said = f"{name} would leave files out, and nobody would hear of it; remove it, and what it names"
                yield Mistake(file, 1, said)


def _place_of(hook: Any) -> tuple[Path, int] | None:
    """Return file and line of a hook; None for one that is not written in Python."""
    code = getattr(inspect.unwrap(hook.function), "__code__", None)
    return (Path(code.co_filename), code.co_firstlineno) if code is not None else None


def hidden_by_marks(items: Sequence[pytest.Item], folder: Path, before: dict[pytest.Item, int]) -> Iterator[Mistake]:
    """Yield the marks that hooks have added and that would hide how checks end.

    Args:
        before: how many marks of that kind each item had as it was written.
    """
    for item in items:
        if hiding_marks(item, folder) > before.get(item, 0):
            file, line, _ = item.reportinfo()
            name, marks = item.name.partition("[")[0], [XFAIL] if item.path.is_relative_to(folder) else HIDING
            said = f"{name} gets a mark {' or '.join(marks)} from a hook in {folder}, which hides how it ends"
            yield Mistake(Path(file), (line or 0) + 1, f"{said}; remove it")


def hiding_marks(item: pytest.Item, folder: Path) -> int:
    """Return how many marks an item has that keep it from being run, or its failure from being seen."""
    marks = [XFAIL] if item.path.is_relative_to(folder) else HIDING
    return sum(mark.name in marks for mark in item.iter_markers())


def replaced_fixtures(item: pytest.Item, folder: Path) -> Iterator[Mistake]:
    """Yield the fixtures by which an item would not get vmatrix's; one that asks for vmatrix's may add to it."""
    info: Any = getattr(item, "_fixtureinfo", None)
    for name, definitions in info.name2fixturedefs.items() if info is not None else ():
        if not any(one.func.__module__ == fixtures.__name__ for one in definitions):
            continue
        for one in definitions:
            code = getattr(inspect.unwrap(one.func), "__code__", None)
            if code is None or not Path(code.co_filename).is_relative_to(folder):
                continue
            if name not in one.argnames:
                said = f"the fixture {name} takes the place of vmatrix's; rename it, or have it ask for {name}"
                yield Mistake(Path(code.co_filename), code.co_firstlineno, said)
