"""A Docker engine for the tests, where none runs: Debian's docker.io, started by hand and stopped without a trace."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import BadInput
from harness.infra import guest_facts
from harness.infra.kind import engine
from harness.until import Deadline, NotYet, until

CGROUPS = Path("/sys/fs/cgroup")
DAEMON = Path("/usr/sbin/dockerd")
FOLDER = Path("/var/lib/vmatrix-kind-engine")  # short: paths of sockets have to fit into 108 bytes
CLIENT = Path("/usr/bin/docker")  # of the daemon's own package: what else PATH has by this name may differ
START_SECONDS = 120.0
STOP_SECONDS = 30.0
GONE_SECONDS = 60.0
RUNTIME = Path(__file__).with_name("runtime.py")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Running:
    """An engine: the variables by which commands use it, and whether these tests started it."""

    environment: dict[str, str]
    ours: bool


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Yield an engine: the one that answers, else one of our own below a folder, gone with all it had at the end.

    Raises:
        BadInput: none answers, and docker.io is not installed.
    """
    if engine.find().engine is not None:
        yield Running({}, ours=False)
        return
    if not DAEMON.exists():
        raise BadInput("no container engine is running and there is none to start", hint="apt-get install docker.io")
    if folder.exists():  # a run that was killed left it
        stop(folder)
    folder.mkdir(parents=True)
    try:
        yield Running(start(folder), ours=True)
    finally:
        stop(folder)


def start(folder: Path) -> dict[str, str]:
    """Start the engine; return the variables by which commands use it."""
    socket = folder / "docker.sock"
    clients = folder / "bin"
    clients.mkdir(exist_ok=True)
    (clients / "docker").unlink(missing_ok=True)
    (clients / "docker").symlink_to(CLIENT)
    Path("/lib/modules").mkdir(exist_ok=True)  # kind mounts it into every node
    argv: list[str | Path] = [DAEMON, "--data-root", folder / "data", "--exec-root", folder / "exec"]
    # Nothing is published but on the loopback, by docker's own proxy: the host's packet filter stays as it is.
    argv += ["--iptables=false", "--ip6tables=false", "--storage-driver", "overlay2"]
    argv += ["--pidfile", folder / "docker.pid", "--host", f"unix://{socket}", *_runtime(folder)]
    proc.spawn(argv, log=folder / "dockerd.log", pidfile=folder / "dockerd.json", env={"PATH": PATH})
    environment = {"DOCKER_HOST": f"unix://{socket}", "PATH": f"{clients}:{os.environ['PATH']}"}

    def answers() -> bool | NotYet:
        done = proc.run([CLIENT, "info"], timeout=30, check=False, env=environment)
        return done.returncode == 0 or NotYet((done.stderr or done.stdout).strip()[-300:])

    until(answers, deadline=Deadline.after(START_SECONDS), what="the engine answers", describe=lambda: _tail(folder))
    return environment


def stop(folder: Path) -> None:
    """Stop the engine and take away everything below its folder."""
    service = proc.Service.load(folder / "dockerd.json")
    if service is not None:
        service.stop(grace=STOP_SECONDS)

    def none_left() -> bool | NotYet:
        left = _processes(folder)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return NotYet(f"processes {left} are left") if left else True

    until(none_left, deadline=Deadline.after(GONE_SECONDS), what="the engine's processes have ended", interval=0.2)
    for point in sorted(_mounts(folder), key=len, reverse=True):  # deepest first
        proc.run(["umount", "--lazy", point], timeout=30, check=False)
    shutil.rmtree(folder)
    for group in (*CGROUPS.glob("*/docker"), *CGROUPS.glob("docker")):
        _remove_group(group)
    if Path("/sys/class/net/docker0").exists():
        proc.run(["ip", "link", "delete", "docker0"], timeout=30, check=False)


def _remove_group(group: Path) -> None:
    """Remove a control group and those in it, deepest first; none has a process any more."""
    for child in sorted(group.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
        child.rmdir()
    group.rmdir()


def _runtime(folder: Path) -> list[str | Path]:
    """Return the options that put our runtime in front of runc, where this host cannot give what is asked of it."""
    if guest_facts.look().may_raise_limits:
        return []
    program = folder / "runtime"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {RUNTIME} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return ["--add-runtime", f"vmatrix={program}", "--default-runtime", "vmatrix"]


def _processes(folder: Path) -> list[int]:
    """Return the processes that were started for the engine: its folder stands in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it ended while we looked
            continue
        if f"{folder}/".encode() in command and int(entry.name) != os.getpid() and b"containerd" in command:
            found.append(int(entry.name))
    return found


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(f"{folder}/")]


def _tail(folder: Path) -> str:
    return "\n".join((folder / "dockerd.log").read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
