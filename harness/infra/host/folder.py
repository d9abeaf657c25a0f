"""The folder of all instances: who takes an index in it, which index an instance has, and how its files go."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress

from harness.errors import InfraError
from harness.infra.host import locks, network
from harness.infra.host.addresses import INDICES, address_of
from harness.infra.host.layout import Layout
from harness.infra.host.record import InstanceRecord, boot_id, load, save
from harness.record import now

CLAIM_SECONDS = 30.0  # another command holds this lock while it writes two files
CLAIM_LOCK = ".claim.lock"


def claim(layout: Layout) -> InstanceRecord:
    """Take the first free index for a new instance, and make its bridge, which holds the index from then on.

    Raises:
        InfraError: all indices are taken.
    """
    with _locked(layout):
        taken = network.taken_indices() | {other.index: f"used by instance {other.name}" for other in _others(layout)}
        for index in INDICES:
            if index in taken:
                continue
            record = InstanceRecord(layout.name, index, now(), boot_id())
            save(layout, record)  # before the bridge: an unrecorded bridge without an alias would belong to nobody
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
    record = load(layout)
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
        record = load(Layout(folder.name, folder)) if folder != layout.root else None
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
    return locks.hold(lock, seconds=CLAIM_SECONDS, what="another instance to take its addresses")
