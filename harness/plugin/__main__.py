"""pytest as vmatrix calls it: with the plugins that vmatrix names, and with exit codes of vmatrix alone.

Run as `python -P -m harness.plugin WORDS`, WORDS being those of a pytest call. Other plugins are loaded where the
conftest.py of the project's own checks names them (`pytest_plugins`). What pytest or Python would end with by
themselves is not a word of the product, of the infrastructure or of what was selected: it is the user's mistake (2)
where it came out of own checks, and else a bug of vmatrix (70).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import harness.plugin
from harness.errors import BadInput, HarnessBug, VmatrixError
from harness.plugin import state
from harness.plugin.own_checks import ChecksRefused, comes_from, refusal, unloadable
from harness.plugin.own_hooks import folder_in
from harness.spec.settings import RESOLVED, Sourced

PYTESTS_OWN = range(1, 6)  # the exit codes that pytest has meanings of its own for
INTERRUPTED = 128 + signal.SIGINT
TEMPORARY = "vmatrix-pytest-"  # of the name of a call's folder for temporary files


# What a hook of own checks has ended pytest with: what happened, and what to do.
OF_OWN_CHECKS: Mapping[int, tuple[str, str]] = {
    pytest.ExitCode.USAGE_ERROR: (
        "pytest refuses the call because of the own checks in {folder}: see its message above",
        "a conftest.py there raises pytest.UsageError, or adds a wrong option",
    ),
    pytest.ExitCode.NO_TESTS_COLLECTED: (
        "no check is left of the run, because of the own checks in {folder}",
        "a conftest.py there takes them out: look at its pytest_collection_modifyitems",
    ),
}


class PytestCall:
    """One call of pytest, and how it ended."""

    def __init__(self, words: Sequence[str], resolved: Sourced | None = None) -> None:
        self.words = list(words)
        self.resolved = resolved
        self.folder = folder_in(words)
        self.config: pytest.Config | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, int | None, int | None]:
        """Take note of the call's config; its plugins are loaded, so programs that it starts choose theirs again."""
        os.environ.pop(state.ONLY_NAMED, None)
        self.config = config
        if self.resolved is not None:
            config.stash[state.RESOLVED] = self.resolved
        config.pluginmanager.register(object(), state.ALONE)
        if config.option.basetemp is not None:
            return (yield)
        # pytest's own choice is a folder that all of a user's runs share, and clean up for each other
        with TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True) as folder:
            config.option.basetemp = Path(folder) / "pytest"
            return (yield)

    def run(self) -> int:
        """Run it and return an exit code of vmatrix."""
        os.environ[state.ONLY_NAMED] = "1"
        plugins = [harness.plugin, self, *(name for name in state.PLUGINS if name != harness.plugin.__name__)]
        try:
            status = int(pytest.main(self.words, plugins=plugins))
        except KeyboardInterrupt:
            return INTERRUPTED
        except ChecksRefused as refused:
            return int(refused.code or 0)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not become an exit code by itself
            return self._escaped(error)
        finally:
            os.environ.pop(state.ONLY_NAMED, None)
        if status not in PYTESTS_OWN:
            return status
        if self.config is None:
            return self._unexplained(status)
        own, verdict = self.config.stash.get(state.OWN, None), self.config.stash.get(state.VERDICT, None)
        if verdict is None and own is not None and own.broke is not None:
            return own.broke.exit_code
        return verdict if verdict is not None else self._unexplained(status)

    def _escaped(self, error: BaseException) -> int:
        """Return the exit code for an exception that pytest let through, and print whose it is."""
        if self.folder is not None and comes_from(error, self.folder):
            return show(refusal([unloadable(error, self.folder, self.folder)], self.folder))
        traceback.print_exception(error)
        said = f"pytest was ended by {type(error).__name__}: {error}"
        return show(HarnessBug(said, hint="this is a bug in vmatrix: report it with the traceback"))

    def _unexplained(self, status: int) -> int:
        """Return the exit code for a status of pytest's own that no verdict of a run came with."""
        name = pytest.ExitCode(status).name.lower().replace("_", " ")
        if self.folder is not None and status in OF_OWN_CHECKS:
            said, hint = OF_OWN_CHECKS[status]
            return show(BadInput(said.format(folder=self.folder), hint=hint))
        said = f"pytest ended with status {status} ({name}), and nothing of the run says why"
        return show(HarnessBug(said, hint="this is a bug in vmatrix: report it with what pytest printed above"))


def show(error: VmatrixError) -> int:
    """Print an error and return its exit code."""
    sys.stderr.write(f"error ({error.blame.value}): {state.message(error)}\n")
    return error.exit_code


def main() -> int:
    """Run pytest with the words of the command line."""
    if sys.flags.optimize:  # begun by hand
        said = "Python runs without assertions, which checks consist of (-O or PYTHONOPTIMIZE)"
        return show(BadInput(said, hint="leave that out"))
    text = os.environ.pop(RESOLVED, None)
    return PytestCall(sys.argv[1:], Sourced.load(text) if text else None).run()


if __name__ == "__main__":
    sys.exit(main())
