"""Python as vmatrix starts it: which variables of the environment reach it, and the words that begin a call.

What vmatrix and the project's settings name is loaded, and nothing that happens to lie in the working directory or in
the environment: a file `secrets.py` there is no module of ours, and PYTHONOPTIMIZE would remove what checks assert.

Variables of Python: https://docs.python.org/3/using/cmdline.html#environment-variables (3.11 to 3.14). Those of pytest:
https://docs.pytest.org/en/stable/reference/reference.html#environment-variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.errors import BadInput

PYTEST = "harness.plugin"  # pytest as a module that ends with exit codes of vmatrix
PATH = "PYTHONPATH"
EXECUTABLES = ("PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__")
# A variable whose name begins so is for Python or for pytest; without a line in PASSES it reaches nothing of ours.
FAMILIES = (
    "PYTHON",
    "__PYVENV_LAUNCHER__",
    "PYTEST_",
    "_PYTEST_",
    "PY_IGNORE_IMPORTMISMATCH",
    "EXECNET_",
    "_ARGCOMPLETE",
)
PASSES = {
    "PYTHONHOME": "where the library of this Python is: without it, Python may not start",
    "PYTHONPLATLIBDIR": "the name of a folder in that library",
    "PYTHONEXECUTABLE": "the path of this Python on macOS",
    "PYTHONSAFEPATH": "keeps modules of the working directory out, as vmatrix's own calls do with -P",
    "PYTHONNOUSERSITE": "whether packages of the user count, as for the process that it was set for",
    "PYTHONUSERBASE": "where packages of the user are: vmatrix may be one of them",
    "PYTHONDONTWRITEBYTECODE": "whether compiled modules are written",
    "PYTHONPYCACHEPREFIX": "where compiled modules are written",
    "PYTHONHASHSEED": "the order of sets, on which nothing depends",
    "PYTHONUNBUFFERED": "when output is written",
    "PYTHONIOENCODING": "how output is encoded; what the encoding lacks is escaped",
    "PYTHONUTF8": "how text is encoded where the locale does not say; files of vmatrix are UTF-8 by themselves",
    "PYTHONCOERCECLOCALE": "whether the locale C means UTF-8, as PYTHONUTF8",
    "PYTHONFAULTHANDLER": "whether a crash of Python itself prints where it was",
    "PYTHON_COLORS": "whether messages of Python have colours",
    "PYTHON_DISABLE_REMOTE_DEBUG": "forbids other processes to run code in this one",
}
DROPPED = {
    PATH: "modules of these folders come before Python's own; the folder that vmatrix itself is found in stays",
    "PYTHONSTARTUP": "runs a file where Python is interactive",
    "PYTHONCASEOK": "imports modules of another spelling",
    "PYTHONOPTIMIZE": "removes assertions, which checks consist of",
    "PYTHONDEBUG": "prints what the parser does",
    "PYTHONINSPECT": "waits for input at the end, instead of ending",
    "PYTHONVERBOSE": "prints what is imported",
    "PYTHONWARNINGS": "makes errors of warnings, or hides those of checks",
    "PYTHONWARNDEFAULTENCODING": "makes warnings, which are errors in checks",
    "PYTHON_CONTEXT_AWARE_WARNINGS": "changes which warnings are errors in checks",
    "PYTHONDEVMODE": "makes warnings, which are errors in checks, and is slow",
    "PYTHONBREAKPOINT": "imports and calls a function",
    "PYTHONASYNCIODEBUG": "prints slow callbacks, and is slow",
    "PYTHONTRACEMALLOC": "is slow, and takes memory",
    "PYTHONPROFILEIMPORTTIME": "prints what is imported",
    "PYTHONMALLOC": "another allocator: machines are admitted by what processes of vmatrix take with Python's own",
    "PYTHONMALLOCSTATS": "prints statistics",
    "PYTHONINTMAXSTRDIGITS": "refuses numbers that are none too long",
    "PYTHONNODEBUGRANGES": "leaves out of tracebacks what reports show",
    "PYTHONTHREADDEBUG": "prints what threads do, in a debug build",
    "PYTHONDUMPREFS": "prints objects at the end, in a debug build",
    "PYTHONDUMPREFSFILE": "writes objects at the end, in a debug build",
    "PYTHONLEGACYWINDOWSFSENCODING": "of another system",
    "PYTHONLEGACYWINDOWSSTDIO": "of another system",
    "PYTHONPERFSUPPORT": "writes a file for perf in /tmp",
    "PYTHON_PERF_JIT_SUPPORT": "writes a file for perf in /tmp",
    "PYTHON_FROZEN_MODULES": "takes modules of the library from files",
    "PYTHON_PRESITE": "imports a module, in a debug build",
    "PYTHON_BASIC_REPL": "of interactive use",
    "PYTHON_HISTORY": "of interactive use",
    "PYTHON_CPU_COUNT": "how many cells fit would be computed from it; settings of vmatrix limit them",
    "PYTHON_GIL": "another way to run threads",
    "PYTHON_JIT": "another way to run code",
    "PYTHON_THREAD_INHERIT_CONTEXT": "another way to run threads",
    "PYTHON_TLBC": "another way to run threads",
    "__PYVENV_LAUNCHER__": "takes another environment for this one, on macOS",
    "PYTEST_ADDOPTS": "adds arguments to every call of pytest",
    "PYTEST_PLUGINS": "imports modules",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "takes away plugins that a run needs; vmatrix names its own",
    "PYTEST_DEBUG": "prints what pytest's plugins do",
    "PYTEST_DEBUG_TEMPROOT": "moves temporary folders to a place that need not be there",
    "PYTEST_THEME": "colours of source code; a name that is none ends pytest",
    "PYTEST_THEME_MODE": "colours of source code; a name that is none ends pytest",
    "PYTEST_VERSION": "of the pytest around this process",
    "PYTEST_CURRENT_TEST": "of the pytest around this process",
    "PYTEST_XDIST_AUTO_NUM_WORKERS": "how many cells run at a time; --parallel says that",
    "PYTEST_XDIST_WORKER": "of the pytest around this process",
    "PYTEST_XDIST_WORKER_COUNT": "of the pytest around this process",
    "PYTEST_XDIST_TESTRUNUID": "of the pytest around this process",
    "_PYTEST_RAISE": "raises what pytest would report",
    "PY_IGNORE_IMPORTMISMATCH": "accepts a file of checks in the place of another one",
    "EXECNET_DEBUG": "writes what workers are sent into files",
    "_ARGCOMPLETE": "takes a call for one that completes words",
}


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what would change how vmatrix's own Python runs, or what it loads."""
    kept = {name: value for name, value in environment.items() if name in PASSES or not name.startswith(FAMILIES)}
    own = str(Path(__file__).resolve().parents[1])
    if own in environment.get(PATH, "").split(os.pathsep):
        kept[PATH] = own
    return kept


def call(module: str, *arguments: str) -> list[str]:
    """Return the words that run a module without the modules of the working directory (`-P`)."""
    return [sys.executable, "-P", "-m", module, *arguments]


def vmatrix_call(*words: str) -> list[str]:
    """Return the words of a vmatrix command, by this Python and this vmatrix."""
    return [sys.executable, "-P", "-c", "from harness.cli import main; main()", *words]


def begin_anew() -> None:
    """Replace this process by the same call in surroundings of its own, where its own are not such.

    That is so where a variable reached this Python that must not, where it runs without assertions (`-O`), or where
    the working directory is a place of modules (`python -c`). A program that imports vmatrix stays as it is.

    Raises:
        BadInput: a variable has this Python take another file for itself.
    """
    for name in EXECUTABLES:
        if os.environ.get(name) and not os.access(sys.executable, os.X_OK):
            raise BadInput(
                f"{name} has Python take {sys.executable!r} for itself, which is not a program", hint=f"unset {name}"
            )
    words = _own_call()
    if words is None:
        return
    clean = surroundings(os.environ)
    reached = {name for name, value in os.environ.items() if name.startswith("PYTHON") and value}
    if sys.flags.optimize or "" in sys.path or any(clean.get(name) != os.environ[name] for name in reached):
        os.execve(sys.executable, [sys.executable, "-P", *words], clean)  # noqa: S606 - signals reach it
    for name in os.environ.keys() - clean.keys():
        del os.environ[name]


def _own_call() -> list[str] | None:
    """Return this process's script, or -c and its code, and their arguments; None where something else calls us."""
    count = len(sys.argv)
    if sys.argv[0] == "-c" and sys.orig_argv[-count : -count + 1 or None] != ["-c"]:
        count += 1
        code = sys.orig_argv[-count:]
        return code if code[:1] == ["-c"] and code[2:] == sys.argv[1:] else None
    return sys.argv if sys.orig_argv[-count:] == sys.argv else None
