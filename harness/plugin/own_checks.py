"""The project's own checks as pytest loads them: what is wrong with them is said at once, before anything is made."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.config import ConftestImportFailure
from pluggy import PluginValidationError

from harness.errors import BadInput
from harness.paths import enclosing_project, named_project
from harness.plugin.own_items import Mistake, hidden, mistakes_of, names_twice, never_run
from harness.spec.project import checks_dir
from harness.spec.suites import CHECKS, own_suites, suite_in

if TYPE_CHECKING:
    from harness.session import RunPlan

HINT = "docs/own-checks.md shows what a check looks like"


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


def refuse_conftest(failure: BaseException, args: Sequence[str]) -> None:
    """End this process, if a conftest.py of the own checks cannot be loaded; pytest says it in a traceback.

    Raises:
        ChecksRefused: it cannot, or it is wrong what it does to pytest.
    """
    folder = folder_in(args)
    path = failure.path if isinstance(failure, ConftestImportFailure) else folder and folder / "conftest.py"
    if folder is not None and path is not None and path.is_relative_to(folder):
        error = refusal([unloadable(failure, path, folder)], folder)
        sys.stderr.write(f"error ({error.blame.value}): {error.summary}\nhint: {error.hint}\n")
        raise ChecksRefused(error.exit_code) from None


class ChecksRefused(SystemExit):
    """The end of this process with an exit code of vmatrix; what is wrong was printed."""


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

    folder: of the checks.  mistakes: what is wrong with them.  unused: those that run after no phase of any cell.
    broke: what a hook of theirs has ended pytest with.
    """

    def __init__(self, folder: Path, plan: RunPlan) -> None:
        self.folder = folder
        self.plan = plan
        self.mistakes: list[Mistake] = []
        self.unused: list[str] = []
        self.broke: BadInput | None = None
        self._modules: set[Path] = set()
        self._broken: set[Path] = set()

    @property
    def error(self) -> BadInput | None:
        """Return what is wrong, all of it at once; None when nothing is."""
        return refusal(self.mistakes, self.folder) if self.mistakes else None

    def raised(self, error: BaseException | None) -> bool:
        """Tell whether an error came out of the project's own code, or of what that called."""
        return comes_from(error, self.folder)

    def collect_alone(self, session: pytest.Session) -> BadInput | None:
        """Collect nothing but own checks in a process that leaves collecting to others; return what is wrong."""
        session.perform_collect([str(self.folder)])
        session.items, session.testscollected = [], 0
        return self.error

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
            try:
                report = yield
            except SystemExit as ended:  # would end the run, as if it had passed
                self._broken.add(collector.path)
                self.mistakes.append(unloadable(ended, collector.path, self.folder))
                return pytest.CollectReport(collector.nodeid, "failed", "it calls sys.exit", [])
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

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException], excrepr: object) -> bool | None:
        """Take an error of the project's own hooks for what it is; pytest would call it one of its own."""
        return True if self._ended_by(excinfo.value) else None

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Take `pytest.exit` of the project's own for what it is; it chooses any exit code."""
        if isinstance(excinfo.value, pytest.exit.Exception):
            self._ended_by(excinfo.value)

    def _ended_by(self, error: BaseException) -> bool:
        """Tell whether the project's own code has ended pytest; take note of that and print where."""
        if self.raised(error):
            self.broke = refusal([unloadable(error, self.folder / "conftest.py", self.folder)], self.folder)
            sys.stderr.write(f"error ({self.broke.blame.value}): {self.broke.summary}\nhint: {self.broke.hint}\n")
        return self.broke is not None

    def look_at(self, items: list[pytest.Item]) -> None:
        """Take note of what is wrong with the own checks among the items, and leave these out of them."""
        own = [item for item in items if self.is_own(item.path)]
        wrong = {item: found for item in own if (found := list(mistakes_of(item, self.plan)))}
        self.mistakes += [mistake for found in wrong.values() for mistake in found]
        good = [item for item in own if item not in wrong]
        self.mistakes += names_twice(good)
        loaded = self._modules - self._broken
        self.mistakes += [mistake for path in sorted(loaded) for mistake in hidden(path)]
        empty = loaded - {item.path for item in own}
        self.mistakes += [Mistake(path, 1, "no test in it; write one, or rename the file") for path in empty]
        self.unused = never_run(good)
        for item in good:
            item.add_marker(pytest.mark.filterwarnings("default"))
        items[:] = [item for item in items if item not in wrong]


def unloadable(error: BaseException | None, path: Path, folder: Path) -> Mistake:
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
    said = str(cause).strip().partition("\n")[0]
    if isinstance(cause, ModuleNotFoundError):
        named = f"modules beside the checks are named from {folder.name}/ on: {folder.name}/a.py is `a`"
        return Mistake(where, line, f"{said}; install it, or correct its name; {named}")
    return Mistake(where, line, f"raises {_name(cause)} when it is loaded: {said}; correct it")


def _name(error: BaseException) -> str:
    return "pytest.exit" if isinstance(error, pytest.exit.Exception) else type(error).__name__


def _line(error: BaseException, folder: Path, path: Path) -> tuple[Path, int]:
    """Return the last line of the project's own that an error came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(folder)]
    return (Path(frames[-1].filename), frames[-1].lineno or 1) if frames else (path, 1)
