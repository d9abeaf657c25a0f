"""Folder of all instances: who takes an index in it, which index an instance has, how its files go, and its locks.

Locks are advisory locks on files, so that two commands never change one thing at the same time. A lock file may be
removed by its holder: whoever waited for it notices and locks the new one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import InfraError
from harness.events import now
from harness.infra.host import network
from harness.infra.host.layout import InstanceRecord, Layout, boot_id, load_record, save_record
from harness.infra.host.network import INDICES, address_of
from harness.until import Deadline, NotYet, until

log = logging.getLogger(__name__)


@contextmanager
def hold(path: Path, *, seconds: float, what: str) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel releases it when the holder dies.

    Args:
        path: the lock file; it and its folder are created as needed.
        what: what is waited for, for the message: "another command on instance default to end".

    Raises:
        TimedOut: another process held it all the time.
    """
    told = False

    def attempt() -> int | NotYet:
        nonlocal told
        answer = _acquire(path)
        if isinstance(answer, NotYet) and not told:
            told = True
            log.warning("waiting for %s: %s", what, answer.reason)
        return answer

    handle = until(attempt, deadline=Deadline.after(seconds), what=what, interval=0.1)
    try:
        _sign(handle)
        yield
    finally:
        os.close(handle)


def _acquire(path: Path) -> int | NotYet:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            return handle
        why = "it was just replaced"
    except BlockingIOError:
        why = lock_holder(path)
    except FileNotFoundError:
        why = "it was just removed"
    os.close(handle)
    return NotYet(f"{path} is locked: {why}")


def _sign(handle: int) -> None:
    """Write down who holds the lock, if the disk has room for it; since when is the file's time."""
    with suppress(OSError):  # an instance on a full disk can be deleted all the same
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {shlex.join(sys.argv)}\n".encode(), 0)


def lock_holder(path: Path) -> str:
    """Return which process holds a lock and since when, as that process wrote it down."""
    try:
        pid, _, command = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
        since = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return "by a process that has ended meanwhile"
    return f"by process {pid} ({command}) since {since:%Y-%m-%d %H:%M:%S} UTC" if pid else "by another process"


CLAIM_SECONDS = 30.0  # another command holds this lock while it writes two files
CLAIM_LOCK = ".claim.lock"


def claim(layout: Layout, workers: int = 0) -> InstanceRecord:
    """Take the first free index for a new instance, and make its bridge, which holds the index from then on.

    Args:
        workers: Nodes that stand for this host beside the first.

    Raises:
        InfraError: all indices are taken.
    """
    with _locked(layout):
        taken = network.taken_indices() | {other.index: f"used by instance {other.name}" for other in _others(layout)}
        for index in INDICES:
            if index in taken:
                continue
            record = InstanceRecord(layout.name, index, now(), boot_id(), workers=workers)
            save_record(
                layout, record
            )  # before the bridge: an unrecorded bridge without an alias would belong to nobody
            try:
                network.ensure_bridge(index, layout)
            except network.BridgeTaken:
                continue  # an instance in another state folder was faster
            return record
        layout.record.unlink(missing_ok=True)
    raise InfraError(
        f"all {len(INDICES)} address blocks for instances are in use",
        hint="take an instance down: vmatrix infra down --infra-name NAME",
        detail="\n".join(f"{i}: {why}" for i, why in sorted(taken.items())),
    )


def find_index(layout: Layout) -> int | None:
    """Return an instance's index from its record, else its kubeconfig, else its bridge; None when nothing tells.

    An index whose bridge names another instance is not this one's (any more): nothing of that index may be touched.
    """
    record = load_record(layout)
    index = record.index if record is not None else _index_in_kubeconfig(layout)
    if index is None or network.belongs_to_another(index, layout):
        return network.owned_bridge_index(layout)
    return index


def _index_in_kubeconfig(layout: Layout) -> int | None:
    try:
        text = layout.kubeconfig.read_text(encoding="utf-8")
    except OSError:
        return None
    return next((index for index in INDICES if f"server: https://{address_of(index)}:" in text), None)


def _others(layout: Layout) -> Iterator[InstanceRecord]:
    for folder in sorted(layout.root.parent.glob("*/")):
        record = load_record(Layout(folder.name, folder)) if folder != layout.root else None
        if record is not None:
            yield record


def remove_files(layout: Layout) -> None:
    """Delete all files of an instance, its record last: as long as it exists, `down` knows the index."""
    if not layout.root.is_dir():
        return
    for path in layout.root.iterdir():
        if path == layout.record:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    layout.record.unlink(missing_ok=True)
    layout.root.rmdir()


def forget(layout: Layout) -> None:
    """Remove the folder of all instances and its lock file when no instance is left."""
    folder = layout.root.parent
    with _locked(layout):
        if {path.name for path in folder.iterdir()} == {CLAIM_LOCK}:
            (folder / CLAIM_LOCK).unlink()
            with suppress(OSError):  # another instance has just begun
                folder.rmdir()


def _locked(layout: Layout) -> AbstractContextManager[None]:
    lock = layout.root.with_name(CLAIM_LOCK)
    return hold(lock, seconds=CLAIM_SECONDS, what="another instance to take its addresses")
