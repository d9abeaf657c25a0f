"""The one module that starts processes: commands that end, and services that stay.

A failed command's error can be pasted into a shell. A service is identified by its pid and its start time, so that a
recycled pid is never mistaken for it and never killed in its place.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO

from harness import threads
from harness.errors import InfraError, VmatrixError
from harness.files import write_atomically

CHUNK = 65536  # bytes; what a pipe holds


class OutputLines:
    """What is read of a pipe. `ended`: all that was written has been read, and nobody has it open for writing."""

    def __init__(self, pipe: IO[str]) -> None:
        self.ended = False
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._descriptor = pipe.fileno()
        self._begun = ""  # a line whose end has not come

    def until(self, moment: float) -> Iterator[str]:
        """Yield lines with their ends until a moment (monotonic seconds) or the end of the output."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not self.ended and (left := moment - time.monotonic()) > 0:
            if not poll.poll(left * 1000):
                return
            chunk = os.read(self._descriptor, CHUNK)
            self.ended = not chunk
            *whole, self._begun = (self._begun + self._decoder.decode(chunk, final=not chunk)).split("\n")
            yield from (f"{line}\n" for line in whole)
        if self.ended and self._begun:
            last, self._begun = self._begun, ""
            yield last


Argv = Sequence[str | Path]
TAIL_LINES = 20
SIGNALS = 128  # shells and programs report a signal as 128 and its number
LAST_SECONDS = 10.0  # for what a killed group wrote; somebody who left it may still have its output open
STOP_SECONDS = 0.2  # between two looks whether a command is still wanted, or has ended


@dataclass(frozen=True)
class Completed:
    """A command that ended: what ran, its exit status, its output (text) and how long it took (seconds)."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


class CommandFailed(VmatrixError):
    """A command ended with another status than 0, timed out, or does not exist."""

    def __init__(self, done: Completed, *, why: str, paths: Sequence[Path] = ()) -> None:
        tail = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-TAIL_LINES:])
        super().__init__(f"`{pasteable(done.argv)}` {why}", detail=tail, paths=paths, hint="run the command by hand")
        self.done = done


class CommandTimedOut(CommandFailed):
    """A command did not end in time; `done` has what it had written."""


@contextmanager
def failing_as_infra(what: str, *, hint: str) -> Iterator[None]:
    """Let a command that fails inside be the infrastructure's failure, not the harness's.

    Args:
        what: what was to be done and was not, as the beginning of the summary.
        hint: what to do about it.

    Raises:
        InfraError: a command failed. Its first line has the reason that the command gives, the detail its last lines.
    """
    try:
        yield
    except CommandFailed as error:
        said = "" if isinstance(error, CommandTimedOut) else reason_in(error.detail)
        summary, more = (f"{what}: {said}", [error.summary]) if said else (f"{what}: {error.summary}", [])
        detail = "\n".join([*more, error.detail])
        raise InfraError(summary, detail=detail, paths=error.paths, hint=hint) from error


_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")  # colours and other control characters
_REASON = re.compile(r"^\W*(?:error|fatal|failed|panic|E[0-9]{4})\b", re.IGNORECASE)
LONGEST_REASON = 300  # characters


def reason_in(output: str) -> str:
    """Return why a command failed, of its last lines: the last one that names an error, else the last one."""
    lines = [" ".join(_STYLE.sub("", line).split()) for line in output.splitlines()]
    lines = [line for line in lines if line]
    found = next((line for line in reversed(lines) if _REASON.match(line)), lines[-1] if lines else "")
    return found if len(found) <= LONGEST_REASON else f"{found[:LONGEST_REASON]} ..."


def ending_with_us() -> list[str]:
    """Return what to put before a command so that it ends when this process is killed, where util-linux is there."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def pasteable(argv: Argv) -> str:
    """Render a command so that it can be pasted into a shell."""
    return shlex.join(str(a) for a in argv)


def run(
    argv: Argv,
    *,
    timeout: float,
    check: bool = True,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: str | None = None,
    log: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Completed:
    """Run a command to its end.

    Args:
        argv: the command and its arguments; never a shell string.
        timeout: seconds after which the command's whole process group is killed.
        check: raise CommandFailed when the exit status is not 0.
        env: variables to add to this process's environment, and to take out of it (None).
        stdin: text to feed; without it the command reads from /dev/null.
        log: append stdout and stderr, interleaved, to this file; `Completed.stdout` then holds what was written.
        on_line: called with every line of output as it comes (implies interleaving).

    Raises:
        CommandFailed: not found, or (with `check`) a status other than 0.  CommandTimedOut: time was up.
    """
    words = tuple(str(a) for a in argv)
    interleave = log is not None or on_line is not None
    started = time.monotonic()
    threads.check()
    child = _start(words, cwd, env, fed=stdin is not None, interleave=interleave)
    with _ending_when_stopped(child):
        out, err, timed_out = _collect(child, stdin, timeout, log, on_line)
    threads.check()
    done = Completed(words, child.returncode, out, err, time.monotonic() - started)
    paths = (log,) if log is not None else ()
    if timed_out:
        raise CommandTimedOut(done, why=f"did not end within {timeout:.0f} s and was killed", paths=paths)
    if check and child.returncode != 0:
        raise CommandFailed(done, why=f"ended with status {child.returncode}", paths=paths)
    return done


def follow(
    argv: Argv,
    *,
    timeout: float,
    grace: float,
    log: Path,
    on_line: Callable[[str], None] = lambda _: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    whole: bool = False,
) -> Completed:
    """Run a command that ends on its own terms: SIGTERM to it alone, and only after `grace` seconds death to its group.

    Its output, interleaved, goes to `log` and `on_line` as it comes. Any exit status is the caller's to judge.

    Args:
        timeout, grace: seconds until it is told to end, and until it is killed after that.
        env: variables to add to this process's environment.
        whole: its whole group gets the SIGTERM, for a command that does not tell its own processes to end. Nobody waits
            for those when this process is interrupted.

    Raises:
        CommandFailed: not found.  CommandTimedOut: time was up.
    """
    words = tuple(str(a) for a in argv)
    started = time.monotonic()
    threads.check()
    child = _start(words, cwd, env, fed=False, interleave=True)
    end = partial(_signal_child_group, child, signal.SIGTERM) if whole else child.terminate
    try:
        with _ending_when_stopped(child):
            out, timed_out = _follow(child, None, timeout, log, on_line, (grace, end))
    except BaseException:
        _end(child, 0.0 if whole else grace)
        child.wait()
        raise
    threads.check()
    done = Completed(words, child.returncode, out, "", time.monotonic() - started)
    if timed_out:
        raise CommandTimedOut(done, why=f"did not end within {timeout:.0f} s", paths=(log,))
    return done


# What tells git of a repository, whatever folder it works in: what `git rev-parse --local-env-vars` names, but for a
# person's settings (GIT_CONFIG_*). Hooks, aliases and `rebase --exec` have some of them.
OF_A_REPOSITORY = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE"),
    *("GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    *("GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)


def git(
    folder: Path, *words: str, timeout: float, check: bool = False, env: Mapping[str, str] | None = None
) -> Completed:
    """Run git on the repository of a folder, and on no other that the environment names.

    Raises:
        CommandFailed: as `run`.
    """
    argv: Argv = ["git", "-C", folder, *words]
    return run(argv, timeout=timeout, check=check, env={**dict.fromkeys(OF_A_REPOSITORY), **(env or {})})


def _start(
    words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str | None] | None, *, fed: bool, interleave: bool
) -> subprocess.Popen[str]:
    """Start a command in a session of its own, with pipes."""
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env={name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None},
            text=True,
            errors="replace",
            start_new_session=True,
            stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if interleave else subprocess.PIPE,
        )
    except OSError as error:
        raise _not_started(words, error) from error


def stream(argv: Argv) -> Iterator[str]:
    """Yield a command's lines of output as they come; it is killed when nobody wants them any more.

    Raises:
        CommandFailed: it could not be started, or ended with another status than 0 by itself.
    """
    words, started = tuple(str(a) for a in argv), time.monotonic()
    threads.check()
    child = _start(words, None, None, fed=False, interleave=False)
    assert child.stdout is not None  # noqa: S101 - Popen was given pipes
    assert child.stderr is not None  # noqa: S101
    try:
        with _ending_when_stopped(child), child.stdout, child.stderr:
            yield from (line.rstrip("\n") for line in child.stdout)
            said = child.stderr.read()
            child.wait()
    finally:
        _kill_group(child)
        child.wait()
    threads.check()
    if child.returncode != 0:
        done = Completed(words, child.returncode, "", said, time.monotonic() - started)
        raise CommandFailed(done, why=f"ended with status {child.returncode}")


def attend(argv: Argv, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Run a command with this process's own input and output until it ends; return its exit status.

    A signal that ends this process alone, as a job's cancellation does, is passed on; Ctrl-C reaches both.

    Raises:
        CommandFailed: it cannot be started.
    """
    words = tuple(str(a) for a in argv)
    try:
        with subprocess.Popen(words, env={**os.environ, **(env or {})}, cwd=cwd) as child:
            try:
                return child.wait()
            except KeyboardInterrupt as stop:
                if type(stop) is not KeyboardInterrupt:
                    child.terminate()
                raise
    except OSError as error:
        raise _not_started(words, error) from error


def by_signal(code: int) -> bool:
    """Tell whether an exit status is that of a process which a signal has ended, or which says so of itself."""
    return code < 0 or code > SIGNALS


def _not_started(words: tuple[str, ...], error: OSError) -> CommandFailed:
    done = Completed(words, 127, "", str(error), 0.0)
    return CommandFailed(done, why=f"could not be started: {error.strerror}")


def _collect(
    child: subprocess.Popen[str],
    stdin: str | None,
    timeout: float,
    log: Path | None,
    on_line: Callable[[str], None] | None,
) -> tuple[str, str, bool]:
    """Read a child's output to its end; kill its group on time-out or when this process is interrupted."""
    try:
        if log is None and on_line is None:
            out, err = child.communicate(stdin, timeout=timeout)
            return out, err, False
        text, expired = _follow(child, stdin, timeout, log, on_line)
        return text, "", expired
    except subprocess.TimeoutExpired:
        _kill_group(child)
        out, err = child.communicate()
        return out or "", err or "", True
    except BaseException:
        _kill_group(child)
        child.wait()
        raise


def _follow(
    child: subprocess.Popen[str],
    stdin: str | None,
    timeout: float,
    log: Path | None,
    on_line: Callable[[str], None] | None,
    ending: tuple[float, Callable[[], None]] | None = None,
) -> tuple[str, bool]:
    """Copy a child's interleaved output line by line to a log and a callback; tell whether time was up.

    Args:
        ending: for how many seconds it may end by itself when time is up, and what tells it to.
    """
    if stdin is not None and child.stdin is not None:
        child.stdin.write(stdin)
        child.stdin.close()
    assert child.stdout is not None  # noqa: S101 - Popen was given a pipe
    reader, lines = OutputLines(child.stdout), list[str]()

    def ends_within(seconds: float) -> bool:
        moment = time.monotonic() + seconds
        for line in reader.until(moment):
            lines.append(line)
            if sink is not None:
                sink.write(line)
                sink.flush()
            if on_line is not None:
                on_line(line.rstrip("\n"))
        with suppress(subprocess.TimeoutExpired):
            return reader.ended and child.wait(max(0.0, moment - time.monotonic())) is not None
        return False

    with child.stdout, log.open("a", encoding="utf-8") if log is not None else nullcontext() as sink:
        in_time = ends_within(timeout)
        if not in_time and ending is not None and ending[0]:
            grace, end = ending
            end()
            ends_within(grace)
        if not in_time:
            _kill_group(child)
            ends_within(LAST_SECONDS)
    child.wait()
    return "".join(lines), not in_time


@contextmanager
def _ending_when_stopped(child: subprocess.Popen[str]) -> Iterator[None]:
    """Kill a child's group as soon as this thread's work is not wanted any more."""
    stop = threads.stop_event()
    if stop is None:
        yield
        return
    import threading

    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if stop.wait(STOP_SECONDS) and not ended.is_set():
                _kill_group(child)
                return

    watcher = threading.Thread(target=watch, name=f"stop of {child.pid}", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _end(child: subprocess.Popen[str], grace: float) -> None:
    """Tell a child to end, and kill its group when it has not done so within `grace` seconds."""
    if grace:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    _kill_group(child)


def _kill_group(child: subprocess.Popen[str]) -> None:
    """Kill a child's group and what descends from it: Ansible's workers have their own sessions (ansible-core 2.19).

    One of them that still had an answer to write would wait for a dead reader, and the others for it.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(child.pid, signal.SIGSTOP)  # so that it starts nothing more
    others = list(below(child.pid))
    _signal_child_group(child, signal.SIGKILL)
    for pid, _ in others:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def below(pid: int) -> Iterator[tuple[int, str]]:
    """Yield every process below one that is not a zombie: its id and its program's name (proc_pid_stat(5))."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = rest.split()[:2]
        found[int(path.parent.name)] = (int(parent), state, head.partition("(")[2])
    known = {pid}
    while more := {one for one, (parent, _, _) in found.items() if parent in known} - known:
        known |= more
    known.remove(pid)
    yield from ((one, found[one][2]) for one in sorted(known) if found[one][1] not in {"Z", "X"})


def _signal_child_group(child: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, number)


@dataclass(frozen=True)
class Service:
    """A process that stays, by pid and start time (clock ticks since boot, from /proc/PID/stat field 22)."""

    pid: int
    started: int
    argv: tuple[str, ...]

    def alive(self) -> bool:
        """Tell whether that very process still runs (a zombie does not count)."""
        return _start_ticks(self.pid) == self.started

    def stop(self, *, grace: float) -> None:
        """End the process and its session: SIGTERM, then SIGKILL after `grace` seconds. Idempotent."""
        if not self.alive():
            return
        _signal_group(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        while self.alive():
            _signal_group(self.pid, signal.SIGKILL)
            time.sleep(0.02)

    def save(self, pidfile: Path) -> None:
        """Write the identity to a pid file, atomically."""
        write_atomically(pidfile, json.dumps(asdict(self)))

    @staticmethod
    def load(pidfile: Path) -> Service | None:
        """Read a pid file; None when there is none or it is unreadable."""
        try:
            raw = json.loads(pidfile.read_text(encoding="utf-8"))
            return Service(pid=int(raw["pid"]), started=int(raw["started"]), argv=tuple(raw["argv"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def spawn(
    argv: Argv,
    *,
    log: Path,
    pidfile: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    before_exec: Callable[[], None] | None = None,
) -> Service:
    """Start a service in a session of its own, its output appended to `log`, its identity saved in `pidfile`.

    Args:
        before_exec: called in the child between fork and exec (to enter cgroups, say); must not take locks.

    Raises:
        CommandFailed: the program does not exist or cannot be executed.
    """
    words = tuple(str(a) for a in argv)
    with log.open("ab") as sink:
        try:
            child = subprocess.Popen(
                words,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before_exec,
            )
        except OSError as error:
            raise _not_started(words, error) from error
    child.returncode = 0  # the service outlives this object on purpose: silence its destructor's warning
    service = Service(pid=child.pid, started=_start_ticks(child.pid) or 0, argv=words)
    if pidfile is not None:
        service.save(pidfile)
    return service


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return
    reap(pid)


def reap(pid: int) -> None:
    """Collect a dead child of this process, if it is one, so that it does not stay as a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _start_ticks(pid: int) -> int | None:
    """Return the start time of a live process, None when there is none or it is a zombie."""
    reap(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])
