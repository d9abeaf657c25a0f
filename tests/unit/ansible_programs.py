"""Programs of Ansible run as processes that begin with all of it loaded.

A program of Ansible's loads five hundred modules and its settings before it does anything, which takes longer than
most plays of tests, and a process for each task of each machine takes longer than most tasks. `run` stands in for
`harness.proc.run`: a server for each set of settings loads them once, and a child of it is the program, with arguments,
environment, folder and files of its own, which runs tasks one after the other.

Settings are those of Ansible's variables, which it reads while it is loaded, but for OWN. What asks how Ansible is
started, or sends it signals, starts it for real.

    ansible_programs.py     the server, which takes requests as lines of JSON and ends with its input

However the test's process ends, also by SIGKILL, the server's input ends with it: then the program that still runs is
killed, and nothing stays behind.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from harness.proc import Completed

BIN = Path(sys.executable).parent
PROGRAMS = {str(BIN / f"ansible-{name}"): name for name in ("playbook", "inventory")}
# Variables that each run may have for itself: Ansible reads them while it runs, or has nothing of its own there yet.
OWN = (
    *("ANSIBLE_HOME", "ANSIBLE_LOCAL_TEMP", "ANSIBLE_SSH_EXECUTABLE"),
    *("ANSIBLE_VMATRIX_EVENTS", "ANSIBLE_VMATRIX_CHANGES"),
)
# Besides Ansible's, those that count while it is loaded.
LOADING = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "PATH", "TMPDIR")
# Actions that have Ansible's own process change the inventory, and wait for it meanwhile (since ansible-core 2.21)
CHANGING = ("add_host", "group_by")
# What a run loads by name; plugins of other kinds are loaded where they are used.
KINDS = ("action", "callback", "connection", "filter", "inventory", "strategy", "test", "vars")


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Completed:
    """Run a program of our own Ansible to its end, as `harness.proc.run` does.

    It is started for real where this process has settings of Ansible's, by its environment or its working directory;
    and so is every other program.

    Raises:
        CommandFailed, CommandTimedOut: as there.
    """
    from harness import proc

    words = tuple(str(word) for word in argv)
    own = Path("ansible.cfg").exists() or any(name.startswith("ANSIBLE_") for name in os.environ)
    if own or words[0] not in PROGRAMS:
        return proc.run(argv, timeout=timeout, check=check, env=env, log=log)
    whole = {**os.environ, **(env or {})}
    settings = {name: value for name, value in whole.items() if name.startswith(("ANSIBLE_", "PYTHON"))}
    settings |= {name: whole[name] for name in LOADING if name in whole}
    for name in OWN:
        settings.pop(name, None)
    begun = time.monotonic()
    with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as messages:
        out, err = (log or Path(f"/proc/{os.getpid()}/fd/{file.fileno()}") for file in (text, messages))
        before = out.stat().st_size if out.exists() else 0
        request = {"program": PROGRAMS[words[0]], "words": words[1:], "env": whole, "timeout": timeout}
        files = {"cwd": os.getcwd(), "out": str(out), "err": str(err)}
        status = _asked(server(frozenset(settings.items())), {**request, **files})
        told = out.read_bytes()[before:].decode("utf-8", "replace")
        errors = "" if log is not None else err.read_bytes().decode("utf-8", "replace")
        ended = -signal.SIGKILL if status is None else status
        done = proc.Completed(words, ended, told, errors, time.monotonic() - begun)
    if status is None:
        raise proc.CommandTimedOut(done, why=f"did not end within {timeout:.0f} s and was killed")
    if check and status != 0:
        raise proc.CommandFailed(done, why=f"ended with status {status}")
    return done


@cache
def server(settings: frozenset[tuple[str, str]]) -> subprocess.Popen[str]:
    """Return the server for some settings, which ends with this process."""
    made = subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env=dict(settings),
        start_new_session=True,  # Ctrl-C is for this process, which ends it
    )
    atexit.register(made.communicate)
    return made


def _asked(program: subprocess.Popen[str], request: Mapping[str, Any]) -> int | None:
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        program.stdin.write(json.dumps(request) + "\n")
        program.stdin.flush()
        answer = program.stdout.readline()
    except BaseException:  # the next one would read this one's answer
        server.cache_clear()
        program.communicate()
        raise
    if not answer:
        server.cache_clear()
        raise AssertionError(f"the server of Ansible ended with status {program.wait()}")
    status: int | None = json.loads(answer)
    return status


def serve() -> None:
    """Load Ansible, then be its programs in children, one after the other, until the input ends."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        os.environ["ANSIBLE_HOME"] = home
        load()
        for line in sys.stdin:
            request = json.loads(line)
            process = os.fork()
            if process == 0:
                be_program(**request)
            status = _ended(process, request["timeout"])
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
                os.write(1, f"{json.dumps(status)}\n".encode())


def load() -> None:
    """Load what programs of Ansible's load, once for all of them."""
    for name in PROGRAMS.values():
        importlib.import_module(f"ansible.cli.{name}")
    for kind in KINDS:
        package = importlib.import_module(f"ansible.plugins.{kind}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # of a library that this one plugin needs
                importlib.import_module(module.name)
    work_here()
    gc.collect()
    gc.freeze()


def _ended(process: int, seconds: float) -> int | None:
    """Return how a child ended; None where it was killed: it took too long, or this server's input has ended."""
    ended = os.pidfd_open(process)
    in_time = ended in select.select([ended, sys.stdin], [], [], seconds)[0]
    if not in_time:
        with contextlib.suppress(ProcessLookupError):  # it leads no group yet
            os.killpg(process, signal.SIGKILL)
        os.kill(process, signal.SIGKILL)
    os.close(ended)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return status if in_time else None


def work_here() -> None:
    """Have a program run each task itself, but for those of CHANGING.

    The worker of every ansible-core that is allowed runs as it is, with copies of what its process would have for
    itself. It has no terminal, no signals and no messages of its own here.
    """
    from ansible.executor.process import worker
    from ansible.inventory.host import Host
    from ansible.plugins import strategy

    class Here(worker.WorkerProcess):  # type: ignore[misc] # Ansible has no types
        """A worker without a process."""

        _host: Any
        _task: Any
        _task_vars: Any

        def start(self) -> None:
            if self._task.action.rpartition(".")[2] in CHANGING:
                super().start()
                return
            task, host = self._task, self._host
            self._task = task.copy(exclude_parent=True, exclude_tasks=True)
            self._task._parent = task._parent
            self._host = Host(host.name, gen_uuid=False)
            self._host.__dict__.update(host.__dict__)
            self._task_vars = self._task_vars.copy()
            self._detach = self._hard_exit = self._no_process
            with mock.patch.multiple(worker, create=True, **instead), open(os.devnull) as self._new_stdin:
                self.run()

        @staticmethod
        def _no_process(error: str = "") -> None:
            if error:
                raise RuntimeError(error)

    class Messages:
        """Ansible's messages, which this process writes itself."""

        def set_queue(self, queue: object) -> None:
            """Need none."""

        def __getattr__(self, name: str) -> Any:
            return getattr(display, name)

    display = worker.display
    signals = SimpleNamespace(signal=lambda *_: None, SIGINT=signal.SIGINT, SIGTERM=signal.SIGTERM)
    streams = SimpleNamespace(stdout=io.StringIO(), stderr=io.StringIO())
    instead: dict[str, Any] = {"display": Messages(), "signal": signals, "sys": streams}
    strategy.WorkerProcess = Here


def be_program(
    program: str, words: list[str], env: dict[str, str], cwd: str, out: str, err: str, timeout: float
) -> None:
    """Be a program of Ansible's, and end as Python does."""
    from ansible import constants

    os.setsid()
    os.chdir(cwd)
    for name, mode, number in ((os.devnull, os.O_RDONLY, 0), (out, os.O_WRONLY, 1), (err, os.O_WRONLY, 2)):
        file = os.open(name, mode | (os.O_CREAT | os.O_APPEND if number else 0), 0o666)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    if "ANSIBLE_LOCAL_TEMP" in env:
        os.makedirs(env["ANSIBLE_LOCAL_TEMP"], exist_ok=True)
        constants.DEFAULT_LOCAL_TMP = tempfile.mkdtemp(prefix="ansible-local-", dir=env["ANSIBLE_LOCAL_TEMP"])
    status: Any = 1
    try:
        importlib.import_module(f"ansible.cli.{program}").main([f"ansible-{program}", *words])
        status = 0
    except SystemExit as end:
        status = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    serve()
