"""The project's own checks as pytest loads them: what is wrong with them is said at once, before anything is made."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.config import ConftestImportFailure
from _pytest.skipping import evaluate_skip_marks
from pluggy import PluginValidationError

from harness.errors import BadInput, NothingSelected, VmatrixError
from harness.events import Recorder, recorded
from harness.plugin.items import begins_with_cell, check_name, holds, suite_of, text_of
from harness.plugin.own_hooks import (
    ORDERING,
    Mistake,
    deciding_hooks,
    folder_in,
    hidden_by_marks,
    hiding_marks,
    replaced_fixtures,
)
from harness.plugin.own_process import UNCAUGHT, Ended, Late, OwnProcess, no_end
from harness.plugin.state import CELLS, CURRENT, OWN_PROCESS, RUN, cell_of, message, on_worker, stack_of
from harness.report.results import STARTS
from harness.spec.project import checks_dir
from harness.spec.suites import CHECKS, own_suites, suite_in

if TYPE_CHECKING:
    from harness.session import RunPlan

PUBLIC = ("api", "cell", "guest", "hosts", "inventory", "mirror", "phase", "probes", "timeouts")  # docs/own-checks.md
GIVEN_BY_PYTEST = "request"
SCOPES = ("function", "class", "module", "package", "session")  # the narrowest first
RUN_COROUTINES = ("asyncio", "anyio", "trio")  # marks of plugins that await what they mark
NO_VALUES = "got empty parameter set"  # pytest's reason to skip what is parametrized with an empty list
LOCAL_HOST = ("testinfra.plugin", "host")  # where testinfra's own fixture is defined, and what it is called


def mistakes_of(item: pytest.Item, plan: RunPlan, checks: Path) -> Iterator[Mistake]:
    """Yield what is wrong with one check of a folder."""
    here, name = place(item), item.name.partition("[")[0]
    if replaced := list(replaced_fixtures(item, checks)):
        yield from replaced
        return
    unknown = list(_unknown_fixtures(item))
    for file, line, who, asked in unknown:
        near = difflib.get_close_matches(asked, PUBLIC, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PUBLIC)}, and those of your conftest.py"
        yield Mistake(file, line, f"{who} asks for the unknown fixture {asked!r}; {hint}")
    if _asks_for_local_host(item):
        yield Mistake(*here, f"{name}: testinfra's fixture `host` is not a machine of the cell; use hosts[NAME]")
    elif cell_of(item) is None and not unknown:
        yield Mistake(*here, f"{name} looks at no cell; ask for a fixture such as `guest`, `api` or `hosts`")
    if not begins_with_cell(item):
        yield Mistake(*here, f"{name} gets parameters before its cell; remove tryfirst from your pytest_generate_tests")
    yield from (Mistake(*where, text) for where, text in _never_awaited(item))
    yield from (Mistake(*where, text) for where, text in _narrower(item))
    if item.get_closest_marker("xfail") is not None:
        yield Mistake(*here, f"{name}: `xfail` would hide the failure; list it in matrix/quarantine.yml instead")
    if wrong := _wrong_skip(item):
        yield Mistake(*here, f"{name}: {wrong}")
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


def _wrong_skip(item: pytest.Item) -> str:
    """Say why a mark `skip` or `skipif` cannot be used, or skips what nobody meant; "" if there is nothing."""
    try:
        skipped = evaluate_skip_marks(item)
    except pytest.fail.Exception as failed:  # pytest says it when it sets the check up: on machines
        return f"{' '.join(str(failed.msg).split())}; correct the mark"
    if skipped is not None and skipped.reason.startswith(NO_VALUES):
        return "it is parametrized with no value, and would not be run; give one, or remove the check"
    return ""


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


NEVER = "its condition `when` holds after no phase of these cells"
BROKEN = "own-checks-broken"  # an event of a run
NOTHING = "no check was selected"
HINT = "docs/own-checks.md shows what a check looks like"


def refuse_conftest(failure: BaseException, args: Sequence[str]) -> None:
    """End this process, if a conftest.py of the own checks cannot be loaded; pytest says it in a traceback.

    Raises:
        ChecksRefused: it cannot, or it is wrong what it does to pytest.
    """
    folder = folder_in(args)
    path = failure.path if isinstance(failure, ConftestImportFailure) else folder and folder / "conftest.py"
    if folder is not None and path is not None and path.is_relative_to(folder):
        raise _told(refusal([unloadable(failure, path, folder)], folder)) from None


def refuse_hooks(manager: pytest.PytestPluginManager, args: Sequence[str]) -> None:
    """End this process, if a conftest.py that is loaded decides for pytest what is run.

    Raises:
        ChecksRefused: it does.
    """
    folder = folder_in(args)
    if folder is not None and (wrong := list(deciding_hooks(manager, folder))):
        raise _told(refusal(wrong, folder))


class ChecksRefused(SystemExit):
    """The end of this process with an exit code of vmatrix; what is wrong was printed."""


def _told(error: BadInput) -> ChecksRefused:
    """Print an error; return the end of this process."""
    sys.stderr.write(f"error ({error.blame.value}): {error.summary}\nhint: {error.hint}\n")
    return ChecksRefused(error.exit_code)


def comes_from(error: BaseException | None, folder: Path) -> bool:
    """Tell whether an error came out of a folder's code, or of what that called, or is about a hook in it."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    module = getattr(error.plugin, "__file__", None) if isinstance(error, PluginValidationError) else None
    files = [*(frame.filename for frame in frames), *([module] if module is not None else [])]
    return any(Path(file).is_relative_to(folder) for file in files)


def refusal(mistakes: Sequence[Mistake], folder: Path) -> BadInput:
    """Return the error that says all mistakes at once."""
    lines = sorted({str(mistake) for mistake in mistakes})
    count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
    return BadInput("\n".join([f"{count} in {folder}:", *lines]), hint=HINT)


def own_checks_of(plan: RunPlan, args: Sequence[str]) -> OwnChecks | None:
    """Return the own checks of a run; None where it has none.

    Raises:
        BadInput: the tier names some, and the call has the other checks alone.
    """
    folder = folder_in(args)
    if folder is not None:
        return OwnChecks(folder, plan)
    names = [s.name for s in own_suites(plan.project.directory) if s.name in (plan.suites() or ())]
    if names and str(checks_dir()) in [str(Path(word).absolute()) for word in args]:
        raise BadInput(
            f"tier {plan.tier} names {', '.join(names)}, and this call has no check of that",
            hint=f"add {plan.project.directory / CHECKS} to the call, as `vmatrix run` does",
        )
    return None


class OwnChecks:
    """The hooks of a process that collects own checks.

    folder: of the checks.  mistakes: what is wrong with them.  unused: those that run after no phase of any cell, or
    that a conftest.py takes out, each with why.  promised: all items that are to run.  loading: the file
    that is collected.
    broke: what a hook of theirs has ended pytest with.
    """

    def __init__(self, folder: Path, plan: RunPlan) -> None:
        self.folder = folder
        self.plan = plan
        self.mistakes: list[Mistake] = []
        self.unused: dict[str, str] = {}
        self.broke: BadInput | None = None
        self._modules: set[Path] = set()
        self._broken: set[Path] = set()
        self._marks: dict[pytest.Item, int] = {}
        self.promised: list[pytest.Item] = []
        self.loading: Path | None = None
        self.process: OwnProcess | None = None
        self._config: pytest.Config | None = None

    def begin(self, config: pytest.Config) -> None:
        """Give what the checks do in this process the project's deadlines."""
        process = self.process = config.stash[OWN_PROCESS]
        timeouts = self.plan.project.timeouts
        process.load_seconds, process.check_seconds = timeouts.own_load, timeouts.own_check
        config.pluginmanager.register(process, "vmatrix-own-process")
        self._config = config
        for kind in UNCAUGHT:
            config.addinivalue_line("filterwarnings", f"default::pytest.{kind.__name__}")
        if on_worker(config):
            process.limit.in_worker(stack_of(config))

    def _loading(self) -> AbstractContextManager[None]:
        return self.process.loading() if self.process is not None else nullcontext()

    @property
    def error(self) -> BadInput | None:
        """Return what is wrong, all of it at once; None when nothing is."""
        return refusal(self.mistakes, self.folder) if self.mistakes else None

    def raised(self, error: BaseException | None) -> bool:
        """Tell whether an error came out of the project's own code, or of what that called."""
        return comes_from(error, self.folder)

    def collect_alone(self, session: pytest.Session) -> VmatrixError | None:
        """Collect in a process that leaves collecting to others; return what is wrong: workers could not refuse it."""
        session.perform_collect()
        self.settle(session)
        nothing = NothingSelected(NOTHING, hint="`--collect-only` lists the checks")
        wrong = self.error or (nothing if not session.items else None)
        session.items, session.testscollected = [], 0
        return wrong

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        """Compare what is left after all hooks to what there was."""
        done = yield
        self.settle(session)
        return done

    def settle(self, session: pytest.Session) -> None:
        """Take note of what hooks have taken out or marked after the checks were looked at."""
        self.mistakes += deciding_hooks(session.config.pluginmanager, self.folder)
        self.mistakes += hidden_by_marks(session.items, self.folder, self._marks)
        left = set(session.items)
        gone = sorted({f"{suite_of(item)}: {check_name(item)}" for item in self.promised if item not in left})
        if gone:
            said = (
                f"a hook takes out {gone[0]} and {len(gone) - 1} others" if gone[1:] else f"a hook takes out {gone[0]}"
            )
            self.mistakes.append(Mistake(self.folder / "conftest.py", 1, f"{said}; only {ORDERING} may"))

    def suite_of(self, path: Path) -> str:
        """Return the suite of a file."""
        return suite_in(self.folder, path)

    def is_own(self, path: Path) -> bool:
        """Tell whether a file is one of the project's own."""
        return path.is_relative_to(self.folder)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out the suites that the tier does not name: what they are made of is none of its business."""
        wanted = self.plan.suites()
        if wanted is None or not self.is_own(collection_path) or collection_path == self.folder:
            return None
        return True if self._suite_with(collection_path) not in wanted else None

    def _suite_with(self, path: Path) -> str:
        """Return the suite that a file or a folder is of."""
        return suite_in(self.folder, path / "conftest.py" if path.is_dir() else path)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Take note of a file that cannot be loaded. Its warnings are no errors, other than in vmatrix's own checks."""
        if not self.is_own(collector.path):
            return (yield)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", pytest.PytestCollectionWarning)
            self.loading = collector.path
            try:
                with no_end(self.folder), self._loading():
                    report = yield
            except (SystemExit, Ended, Late) as ended:  # would end the run, as if it had passed
                self._broken.add(collector.path)
                self.mistakes.append(unloadable(ended, collector.path, self.folder))
                return pytest.CollectReport(collector.nodeid, "failed", "it ends the run", [])
        self.loading = None
        self.mistakes += [
            Mistake(collector.path, 1, f"{str(warning.message).partition(' (from:')[0]}; pytest leaves it out")
            for warning in told
            if issubclass(warning.category, pytest.PytestCollectionWarning)
        ]
        if isinstance(collector, pytest.Module):
            self._modules.add(collector.path)
        if report.outcome != "passed":
            self._broken.add(collector.path)
            call: pytest.CallInfo[object] | None = getattr(report, "call", None)
            error = call.excinfo.value if call is not None and call.excinfo is not None else None
            self.mistakes.append(unloadable(error, collector.path, self.folder))
        return report

    @pytest.hookimpl(tryfirst=True)  # before a worker tells its controller that it ends
    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException], excrepr: object) -> bool | None:
        """Take an error of the project's own hooks for what it is; pytest would call it one of its own."""
        return True if self.ended_by(excinfo.value) else None

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Take `pytest.exit` of the project's own for what it is; it chooses any exit code."""
        if isinstance(excinfo.value, pytest.exit.Exception):
            self.ended_by(excinfo.value)

    def ended_by(self, error: BaseException) -> bool:
        """Tell whether the project's own code has ended pytest, here or in a worker; take note of that and print where.

        A worker has no other way to tell its controller than the run's results.
        """
        if self.broke is None and self.raised(error):
            when = "in the run" if self.plan.files.results.is_file() else "when it is loaded"
            mistake = unloadable(error, self.folder / "conftest.py", self.folder, when=when)
            self.broke = refusal([mistake], self.folder)
            self._print_broke()
            self._fail_cell(self.broke)
            if self.plan.files.results.is_file():
                Recorder(self.plan.directory).write(BROKEN, summary=self.broke.summary)
        return self.broken() is not None

    def _fail_cell(self, error: BadInput) -> None:
        """Write down that the cell which is under way has failed: what it was promised to be checked by is not run."""
        stash = self._config.stash if self._config is not None else pytest.Stash()
        cell, opened = stash.get(CURRENT, ("", ""))[0], stash.get(CELLS, None)
        if cell and opened is not None:
            opened.record_step(next(c for c in self.plan.cells if c.id == cell), "own checks", error)

    def broken(self) -> BadInput | None:
        """Return what the own checks have ended pytest with, here or in a worker; what a worker told is printed."""
        if self.broke is None and (told := self.broken_in_a_worker()) is not None:
            self.broke = told
            self._print_broke()
        return self.broke

    def _print_broke(self) -> None:
        told = self._config is not None and on_worker(self._config)  # its controller prints it
        if self.broke is not None and not told:
            sys.stderr.write(f"error ({self.broke.blame.value}): {self.broke.summary}\nhint: {self.broke.hint}\n")

    def broken_in_a_worker(self) -> BadInput | None:
        """Return what a hook of the own checks has ended a worker of this call with; None where none has."""
        events = recorded(self.plan.directory).events
        first = max((number for number, event in enumerate(events) if event["event"] in STARTS), default=0)
        summaries = [str(event["summary"]) for event in events[first:] if event["event"] == BROKEN]
        return BadInput(summaries[0], hint=HINT) if summaries else None

    def look_at(self, items: list[pytest.Item]) -> None:
        """Take note of what is wrong with the own checks among the items, and leave these out of them."""
        own = [item for item in items if self.is_own(item.path)]
        wrong = {item: found for item in own if (found := list(mistakes_of(item, self.plan, self.folder)))}
        self.mistakes += [mistake for found in wrong.values() for mistake in found]
        good = [item for item in own if item not in wrong]
        self.mistakes += names_twice(good)
        loaded = self._modules - self._broken
        self.mistakes += [mistake for path in sorted(loaded) for mistake in hidden(path)]
        empty = loaded - {item.path for item in own}
        self.mistakes += [Mistake(path, 1, "no test in it; write one, or rename the file") for path in empty]
        self.unused = dict.fromkeys(never_run(good), NEVER)
        for item in good:
            item.add_marker(pytest.mark.filterwarnings("default"))
        items[:] = [item for item in items if item not in wrong]
        self._marks = {item: hiding_marks(item, self.folder) for item in items}

    def watch(self, hooks: Sequence[Any], items: list[pytest.Item]) -> None:
        """Have what the own checks' conftest.py takes out of the items told, and kept where it is vmatrix's."""
        for hook in hooks:
            code = getattr(inspect.unwrap(hook.function), "__code__", None)
            generator = hook.wrapper or hook.hookwrapper  # of which pluggy runs the parts
            if code is not None and self.is_own(Path(code.co_filename)) and not generator:
                place = Path(code.co_filename), code.co_firstlineno
                hook.function = partial(self._watched, hook.function, place, items)

    def _watched(
        self, function: Callable[..., object], place: tuple[Path, int], items: list[pytest.Item], *given: object
    ) -> object:
        before = list(items)
        with self._loading():
            result = function(*given)
        left = set(items)
        items += [item for item in before if item not in left and not self.is_own(item.path)]
        names = [f"{suite_of(item)}: {check_name(item)}" for item in items if self.is_own(item.path)]
        own = [item for item in before if self.is_own(item.path)]
        gone = {f"{suite_of(item)}: {check_name(item)}" for item in own if item not in left} - set(names)
        if own and not names:
            said = f"{function.__name__} takes out all {len(gone)} checks of this folder; leave one in, or take its"
            self.mistakes.append(Mistake(*place, f"{said} suites out of the tier"))
        self.unused |= dict.fromkeys(sorted(gone), f"{place[0]}:{place[1]} takes it out")
        return result


def unloadable(error: BaseException | None, path: Path, folder: Path, *, when: str = "when it is loaded") -> Mistake:
    """Return why a file could not be loaded: where in the project's folder, and what Python or pytest said."""
    around = isinstance(error, pytest.Collector.CollectError | ConftestImportFailure)
    cause = error.__cause__ if error is not None and around and error.__cause__ else error
    if isinstance(cause, pytest.skip.Exception):
        return Mistake(path, _line(cause, folder, path)[1], "skips itself as a whole; skip within a check instead")
    if isinstance(cause, SyntaxError) and cause.filename:
        return Mistake(Path(cause.filename), cause.lineno or 1, f"syntax error: {cause.msg}; correct it")
    if cause is None:
        return Mistake(path, 1, "cannot be collected; see pytest's message")
    where, line = _line(cause, folder, path)
    said = text_of(cause).strip().partition("\n")[0]
    if isinstance(cause, Late):
        return Mistake(where, line, said)
    if isinstance(cause, ModuleNotFoundError):
        named = f"modules beside the checks are named from {folder.name}/ on: {folder.name}/a.py is `a`"
        return Mistake(where, line, f"{said}; install it, or correct its name; {named}")
    return Mistake(where, line, f"raises {_name(cause)} {when}: {said}; correct it")


def _name(error: BaseException) -> str:
    return "pytest.exit" if isinstance(error, pytest.exit.Exception) else type(error).__name__


def _line(error: BaseException, folder: Path, path: Path) -> tuple[Path, int]:
    """Return the last line of the project's own that an error came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(folder)]
    return (Path(frames[-1].filename), frames[-1].lineno or 1) if frames else (path, 1)


RAISED = re.compile(r"^E +([\w.]+(?:Error|Exception|Failed|Exit)\b.*)$", re.MULTILINE)  # as pytest writes it


class Uncollected:
    """The hooks of a process that a person started."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what a collector failed with, a worker's too."""
        if report.failed:
            self.said.setdefault(report.nodeid, str(report.longrepr).strip())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Print it, unless the run has ended with a message of its own."""
        run = session.config.stash.get(RUN, None)
        if run is not None and run.exit_code:  # checks of a kept cell or of a given cluster are no run
            return
        for name, text in self.said.items():
            found = RAISED.findall(text)
            cause = found[-1] if found else text.rpartition("\n")[2].strip()
            said = f"{name or 'a file of checks'} cannot be collected: {cause}"
            error = BadInput(said, detail=text, hint="fix that and try again")
            sys.stderr.write(f"error ({error.blame.value}): {message(error)}\n")
