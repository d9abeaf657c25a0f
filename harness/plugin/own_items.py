"""What can be wrong with a project's own check that could be loaded, seen by looking at its item alone."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.plugin.items import begins_with_cell, check_name, holds, suite_of
from harness.plugin.state import cell_of

if TYPE_CHECKING:
    from harness.session import RunPlan

PUBLIC = ("api", "cell", "guest", "hosts", "inventory", "mirror", "phase", "probes", "timeouts")  # docs/own-checks.md
GIVEN_BY_PYTEST = "request"
SCOPES = ("function", "class", "module", "package", "session")  # the narrowest first
RUN_COROUTINES = ("asyncio", "anyio", "trio")  # marks of plugins that await what they mark
LOCAL_HOST = ("testinfra.plugin", "host")  # where testinfra's own fixture is defined, and what it is called


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong, where, and what to do."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def mistakes_of(item: pytest.Item, plan: RunPlan) -> Iterator[Mistake]:
    """Yield what is wrong with one check."""
    here, name = place(item), item.name.partition("[")[0]
    unknown = list(_unknown_fixtures(item))
    for file, line, who, asked in unknown:
        near = difflib.get_close_matches(asked, PUBLIC, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PUBLIC)}, and those of your conftest.py"
        yield Mistake(file, line, f"{who} asks for the unknown fixture {asked!r}; {hint}")
    if _asks_for_local_host(item):
        yield Mistake(*here, f"{name}: testinfra's fixture `host` is no machine of the cell; use hosts[NAME]")
    elif cell_of(item) is None and not unknown:
        yield Mistake(*here, f"{name} looks at no cell; ask for a fixture such as `guest`, `api` or `hosts`")
    if not begins_with_cell(item):
        yield Mistake(*here, f"{name} gets parameters before its cell; remove tryfirst from your pytest_generate_tests")
    yield from (Mistake(*where, text) for where, text in _never_awaited(item))
    yield from (Mistake(*where, text) for where, text in _narrower(item))
    if item.get_closest_marker("xfail") is not None:
        yield Mistake(*here, f"{name}: `xfail` would hide the failure; list it in matrix/quarantine.yml instead")
    mark = item.get_closest_marker("when")
    if mark is not None and (wrong := _wrong_condition(mark, item, plan)):
        yield Mistake(*here, f"{name}: {wrong}")


def place(item: pytest.Item) -> tuple[Path, int]:
    """Return the file and the line of a check."""
    file, line, _ = item.reportinfo()
    return Path(file), (line or 0) + 1


def _unknown_fixtures(item: pytest.Item) -> Iterator[tuple[Path, int, str, str]]:
    """Yield each fixture that nobody defines: who asks for it, at which line, and its name."""
    info: Any = getattr(item, "_fixtureinfo", None)  # pytest has no public way to look before a test is set up
    if info is None:
        return
    known = {*info.name2fixturedefs, GIVEN_BY_PYTEST}
    file, line = place(item)
    for name in info.names_closure:
        if name in known:
            continue
        asking = [d for defs in info.name2fixturedefs.values() for d in defs[-1:] if name in d.argnames]
        if name in info.argnames or not asking:
            yield file, line, item.name.partition("[")[0], name
        for fixture in asking:
            code = inspect.unwrap(fixture.func).__code__
            yield Path(code.co_filename), code.co_firstlineno, f"the fixture {fixture.argname}", name


def _never_awaited(item: pytest.Item) -> Iterator[tuple[tuple[Path, int], str]]:
    """Yield each coroutine and each generator among a check and its fixtures that nobody runs to its end."""
    name, function = item.name.partition("[")[0], getattr(item, "obj", None)
    run_by_plugin = type(item) is not pytest.Function or any(map(item.get_closest_marker, RUN_COROUTINES))
    if _is_coroutine(function) and not run_by_plugin:
        yield place(item), f"{name} is a coroutine function, which would not be run; write `def` without `async`"
    elif inspect.isgeneratorfunction(function):
        yield place(item), f"{name} is a generator, which would not be run; assert instead of `yield`"
    for fixture in () if run_by_plugin else _fixtures(item):
        if _is_coroutine(fixture.func):
            said = "is a coroutine function, which nobody awaits; write it without `async`"
            yield _defined(fixture), f"the fixture {fixture.argname} {said}"


def _is_coroutine(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _narrower(item: pytest.Item) -> Iterator[tuple[tuple[Path, int], str]]:
    """Yield each fixture that asks for one of a narrower scope, or for itself: pytest says so when it sets it up."""
    latest = {fixture.argname: fixture for fixture in _fixtures(item)}
    for fixture in latest.values():
        for asked in (latest[name] for name in fixture.argnames if name in latest):
            if SCOPES.index(asked.scope) < SCOPES.index(fixture.scope):
                said = f"the fixture {fixture.argname} has scope {fixture.scope!r} and asks for {asked.argname}"
                yield _defined(fixture), f"{said}, whose scope is {asked.scope!r}; give both the same scope"
            if asked is fixture and len(_definitions(item, fixture.argname)) == 1:
                yield _defined(fixture), f"the fixture {fixture.argname} asks for itself; rename one of them"


def _definitions(item: pytest.Item, name: str) -> Sequence[Any]:
    info: Any = getattr(item, "_fixtureinfo", None)
    return info.name2fixturedefs.get(name, ()) if info is not None else ()


def _fixtures(item: pytest.Item) -> list[Any]:
    """Return the definitions that an item uses."""
    info: Any = getattr(item, "_fixtureinfo", None)
    names = info.name2fixturedefs if info is not None else ()
    return [found[-1] for name in names if (found := _definitions(item, name))]


def _defined(fixture: Any) -> tuple[Path, int]:
    code = inspect.unwrap(fixture.func).__code__
    return Path(code.co_filename), code.co_firstlineno


def _asks_for_local_host(item: pytest.Item) -> bool:
    info: Any = getattr(item, "_fixtureinfo", None)
    module, name = LOCAL_HOST
    found = info.name2fixturedefs.get(name, ()) if info is not None else ()
    return any(fixture.func.__module__ == module for fixture in found[-1:])


def _wrong_condition(mark: pytest.Mark, item: pytest.Item, plan: RunPlan) -> str:
    """Say why the condition of `when` cannot be used, "" if it can."""
    from harness.checks import AfterPhase

    condition = mark.kwargs.get("phase")
    if mark.args or set(mark.kwargs) != {"phase"} or not callable(condition):
        return "write the mark as `when(phase=CONDITION)`, for example `when(phase=after('scale-out'))`"
    known = plan.project.spec.product.phases
    wrong = [n for n in condition.phases if n not in known] if isinstance(condition, AfterPhase) else []
    if wrong:
        return f"the product has no phase {wrong[0]!r}; it has {', '.join(known)}"
    try:
        holds(item)
    except Exception as error:  # noqa: BLE001 - the project's own code may raise anything
        return f"the condition of its mark `when` raises {type(error).__name__}: {error}; correct it"
    return ""


def hidden(path: Path) -> list[Mistake]:
    """Return a mistake for each test of a file that Python forgets, since a later one there has its name."""
    found: list[Mistake] = []
    tree = ast.parse(path.read_bytes())
    named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        first: dict[str, int] = {}
        for node in body:
            if isinstance(node, named) and node.name[:4].lower() == "test":
                line = first.setdefault(node.name, node.lineno)
                if line != node.lineno:
                    said = f"{node.name} has the name of the one in line {line}, which is never run; rename one"
                    found.append(Mistake(path, node.lineno, said))
    return found


def names_twice(items: Sequence[pytest.Item]) -> list[Mistake]:
    """Return a mistake for each check that another file of its suite has under the same name."""
    first: dict[tuple[str, str], Path] = {}
    found: list[Mistake] = []
    for item in items:
        key = suite_of(item), check_name(item)
        there = first.setdefault(key, item.path)
        if there != item.path:
            text = f"{there.name} has a check {key[1]} of suite {key[0]}, too; rename one, since reports name checks so"
            found.append(Mistake(*place(item), text))
    return found


def never_run(items: Sequence[pytest.Item]) -> list[str]:
    """Return the checks whose `when` holds after no phase of any of the run's cells."""
    names = {f"{suite_of(item)}: {check_name(item)}": False for item in items}
    for item in items:
        names[f"{suite_of(item)}: {check_name(item)}"] |= holds(item)
    return [name for name, used in names.items() if not used]
