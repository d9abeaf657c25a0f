"""SSH to machines, directly or through the infra cluster's API: options, logins, commands, and their sockets' folders.

A cell's folder goes with the cell. That of a run that was killed stays, also when its infra cluster goes without being
asked for its cells. So the folder names its infra cluster and the time at which the cell expires, and whoever makes the
cell holds a lock in it, which the kernel releases when that process dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import yaml

from harness import yaml_text
from harness.errors import InfraError, VmatrixError
from harness.files import if_unlocked, read_text, write_atomically
from harness.interpreter import call
from harness.machines.reach import portforward
from harness.machines.reach.portforward import Tunnels
from harness.model import Machine
from harness.proc import CommandFailed, Completed, run
from harness.until import Deadline, NotYet, until

CONNECT_SECONDS = 5.0  # ssh_connect's default, where no timeouts.yml is read
TUNNEL_START_SECONDS = 10.0  # a way through the API is a process of its own: a busy host starts it slowly
SSH_FAILED = 255  # ssh's own exit status when it could not connect or log in
# setpriv(1) of util-linux: the kernel ends the command when the thread that started it is gone, whatever ended that.
DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM")
CLOUD_INIT_RECOVERABLE = 2  # `cloud-init status`: done, with warnings
ALIVE_SECONDS = 3.0  # between looks at a machine's instance while there is no login
KNOCK_SECONDS = 2.0  # for a connection to a machine's SSH port, tried again until the deadline
PREFIX = "vmx-"  # of the names of cells' folders
CLOSE_SECONDS = 10.0  # for an SSH master on this host to end


def control_directory(run_id: str, cell: str) -> Path:
    """Return where a cell's SSH control sockets live.

    Deterministic, so that the reaper finds it; short, because a socket's path has at most 107 bytes (unix(7)).
    """
    digest = hashlib.sha256(f"{run_id}/{cell}".encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"{PREFIX}{digest}"


def ssh_options(
    private_key: Path,
    control: Path | None = None,
    through: Path | None = None,
    *,
    connect_seconds: float = CONNECT_SECONDS,
) -> list[str]:
    """Return the options with which every part of the harness connects.

    Host keys are made by each machine at its first boot and nobody could know them: they are not checked.

    Args:
        control: the folder of shared connections' sockets.
        through: the file that says how machines are reached through the infra cluster's API; without it directly.
        connect_seconds: how long a direct connection may take; login waits try again, later connections are shared.
    """
    seconds = connect_seconds if through is None else TUNNEL_START_SECONDS + Tunnels.load(through).open_seconds
    options = [
        *("-i", str(private_key), "-o", "IdentitiesOnly=yes"),
        *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
        *("-o", f"ConnectTimeout={seconds:.0f}"),
        *unattended_options(control),
    ]
    if through is not None:
        options += ["-o", f"ProxyCommand={proxy_command(through)}"]
    return options


def unattended_options(control: Path | None = None) -> list[str]:
    """Return what every connection has, whoever made the machine: nobody is asked, and one that is lost is noticed.

    Args:
        control: the folder of shared connections' sockets.
    """
    options = ["-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
    options += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    if control is not None:
        options += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60s", "-o", f"ControlPath={control}/%C"]
    return options


def proxy_command(through: Path) -> str:
    """Return the ProxyCommand that leads to whichever machine ssh is asked for.

    It is not tied to its parent's life: the ssh that starts it leaves it to the one that keeps the connection open, and
    it ends when nobody has the other end of its pipes any more.
    """
    words = call(portforward.__name__, str(through))
    return f"{shlex.join(words).replace('%', '%%')} %h %p"


def ssh_command(machine: Machine, private_key: Path, control: Path | None = None) -> list[str]:
    """Return the command that logs in to a machine; append the remote command."""
    target = f"{machine.user}@{machine.address}"
    options = ssh_options(private_key, control, machine.tunnels, connect_seconds=machine.connect_seconds)
    return ["ssh", *options, "-p", str(machine.port), target]


def run_on(
    machine: Machine, command: str, *, private_key: Path, timeout: float, control: Path | None = None
) -> Completed:
    """Run a shell command on a machine; the caller looks at the status (255: could not log in)."""
    argv = [*DIES_WITH_US, *ssh_command(machine, private_key, control), command]
    return run(argv, timeout=timeout, check=False)


def wait_for_login(
    machine: Machine,
    private_key: Path,
    *,
    deadline: Deadline,
    seconds: float,
    control: Path,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Wait until a machine's SSH port answers and the key opens it.

    A refused key is "not yet": cloud-init installs it after sshd is up.

    Args:
        seconds: how long one login may take.
        alive: asked now and then while there is no login; raises when the machine is not there any more.
    """

    knock = _knocking(machine)
    look = _now_and_then(alive)

    def probe() -> bool | NotYet:
        try:
            knock()
        except (OSError, VmatrixError) as error:
            look()
            return NotYet(f"{machine.address}:{machine.port}: {error}")
        done = _asked(machine, "true", private_key=private_key, timeout=seconds, control=control)
        if isinstance(done, NotYet) or done.returncode != 0:
            look()
            return done if isinstance(done, NotYet) else NotYet(f"ssh: {done.stderr.strip() or done.returncode}")
        return True

    until(probe, deadline=deadline, what=f"{machine.name} to accept logins", interval=0.2)


def _knocking(machine: Machine) -> Callable[[], None]:
    """Return what connects to a machine's SSH port and lets go; cheaper than an ssh that cannot get through."""
    if machine.tunnels is None:
        return lambda: socket.create_connection((machine.address, machine.port), timeout=KNOCK_SECONDS).close()
    ways = Tunnels.load(machine.tunnels)
    cluster = ways.cluster()
    return lambda: ways.open(cluster, machine.address, machine.port).close()


def wait_for_cloud_init(
    machine: Machine,
    private_key: Path,
    *,
    deadline: Deadline,
    seconds: float,
    control: Path,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Wait until cloud-init has ended on a machine.

    Args:
        seconds: how long one question may take; a machine that dies meanwhile is noticed after it.
        alive: asked now and then while it has not; raises when the machine is not there any more.

    Raises:
        InfraError: cloud-init ended in an error.
    """
    look = _now_and_then(alive)

    def probe() -> bool | NotYet:
        done = _asked(
            machine,
            "sudo cloud-init status --wait --format json",
            private_key=private_key,
            timeout=max(1.0, min(seconds, deadline.remaining())),
            control=control,
        )
        if isinstance(done, NotYet) or done.returncode == SSH_FAILED:
            look()
            return done if isinstance(done, NotYet) else NotYet(f"ssh: {done.stderr.strip()}")
        if done.returncode in {0, CLOUD_INIT_RECOVERABLE}:
            return True
        raise InfraError(
            f"cloud-init failed on {machine.name}: {_cloud_init_errors(done.stdout)}",
            hint=f"look at /var/log/cloud-init.log on {machine.name}: `vmatrix login <cell> {machine.name}`",
        )

    until(probe, deadline=deadline, what=f"cloud-init to end on {machine.name}", interval=0.3)


def _asked(machine: Machine, command: str, *, private_key: Path, timeout: float, control: Path) -> Completed | NotYet:
    """Run a command on a machine; one that does not end in time has not ended yet."""
    try:
        return run_on(machine, command, private_key=private_key, timeout=timeout, control=control)
    except CommandFailed as late:
        return NotYet(f"`{command}` has not ended within {timeout:.0f} s: {late.detail or 'it printed nothing'}")


def _now_and_then(alive: Callable[[], None]) -> Callable[[], None]:
    """Return the same question, asked at most every few seconds."""
    asked_at = time.monotonic()

    def look() -> None:
        nonlocal asked_at
        if time.monotonic() - asked_at >= ALIVE_SECONDS:
            asked_at = time.monotonic()
            alive()

    return look


def _cloud_init_errors(text: str) -> str:
    try:
        status = json.loads(text)
        return "; ".join(status.get("errors") or []) or str(status.get("status", "no status"))
    except ValueError:
        return text.strip()[-500:] or "no output"


def close_connections(directory: Path) -> None:
    """End every SSH master connection of a cell and remove their sockets. Idempotent."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if path.is_socket():
            run(["ssh", "-o", f"ControlPath={path}", "-O", "exit", "cell"], timeout=CLOSE_SECONDS, check=False)
    shutil.rmtree(directory, ignore_errors=True)


OWNER = "owner.json"  # both what is written down of the cell and the file that is locked


@dataclass(frozen=True)
class Owner:
    """What a folder belongs to: the kubeconfig of the cell's infra cluster, and when the cell expires (Unix time)."""

    infra: str
    expires_at: float


@contextmanager
def held(folder: Path, owner: Owner) -> Iterator[None]:
    """Make a cell's folder and keep it from being taken for one that nobody uses. Removes nothing."""
    with _locked(folder) as file:
        file.truncate(0)
        file.write(json.dumps(asdict(owner)))
        file.flush()
        yield


def _locked(folder: Path) -> TextIO:
    """Make a folder with the file that is locked in it; return that file, locked."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            file = (folder / OWNER).open("a", encoding="utf-8")
        except FileNotFoundError:
            continue  # somebody has just taken the empty folder away
        fcntl.flock(file, fcntl.LOCK_SH)
        if _is_at(file.fileno(), folder / OWNER):
            return file
        file.close()  # somebody has just taken away a dead process's folder of this name


def sweep(infra: Path | None = None) -> list[Path]:
    """Remove this user's folders that no process holds, of expired cells and of an infra cluster; return them.

    Those in which nothing is written down go, too: whoever made them was killed before that.

    Args:
        infra: the kubeconfig of an infra cluster that is gone.
    """
    return [folder for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")) if _removed(folder, infra)]


def _removed(folder: Path, infra: Path | None) -> bool:
    with suppress(OSError):  # another user's, one that has just gone, or something else of this name
        if folder.lstat().st_uid != os.geteuid():
            return False
        if not (folder / OWNER).exists():
            for inner in folder.iterdir():
                inner.rmdir()  # ansible's own, made anew by a playbook that has outlived its cell; only if it is empty
            folder.rmdir()  # only if it is empty
            return True
        with if_unlocked(folder / OWNER) as free:
            if free and _is_over(folder / OWNER, infra):
                close_connections(folder)
                return True
    return False


def _is_over(path: Path, infra: Path | None) -> bool:
    if path.stat().st_size == 0:
        return True
    owner = _read(path)
    return owner is not None and (owner.infra == str(infra) or owner.expires_at < time.time())


def _read(path: Path) -> Owner | None:
    """Return a folder's owner; None where a version has written it that writes something else."""
    try:
        return Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return None


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def through(kubeconfig: Path, url: str, copy: Path) -> Path:
    """Write a copy of a guest's kubeconfig whose requests go through a proxy; return its path.

    Server and certificates stay as they are: who reads it sees the same cluster.
    """
    content = yaml_text.document(read_text(kubeconfig), kubeconfig)
    for entry in content.get("clusters") or []:
        entry["cluster"]["proxy-url"] = url
    write_atomically(copy, yaml.safe_dump(content, sort_keys=False), mode=0o600)
    return copy
