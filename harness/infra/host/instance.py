"""Which instance this is: its index, written down under a lock, and found again when the record is lost."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import record
from harness.errors import InfraError
from harness.infra.host import locks, network
from harness.infra.host.layout import FIRST_BLOCK, INDICES, Layout

CLAIM_SECONDS = 30.0
CLAIM_LOCK = ".claim.lock"


@dataclass(frozen=True)
class Instance:
    """What an instance's record holds.

    `boot` is the kernel's boot id: with another one, no process or machine of the instance can be alive.
    `ending` says that a `down` began: the instance must not be mended any more.
    """

    name: str
    index: int
    created: str
    boot: str
    ending: bool = False


def load(layout: Layout) -> Instance | None:
    """Read an instance's record; None when there is none or it is unreadable."""
    try:
        raw = json.loads(layout.record.read_text(encoding="utf-8"))
        return Instance(str(raw["name"]), int(raw["index"]), str(raw["created"]), str(raw["boot"]), bool(raw["ending"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(layout: Layout, instance: Instance) -> None:
    """Write an instance's record, atomically."""
    layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = layout.record.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(instance), indent=2) + "\n", encoding="utf-8")
    temporary.replace(layout.record)


def claim(layout: Layout) -> Instance:
    """Take the first free index for a new instance, and make its bridge, which holds the index from then on.

    Raises:
        InfraError: all indices are taken.
    """
    lock = layout.root.with_name(CLAIM_LOCK)
    with locks.hold(lock, seconds=CLAIM_SECONDS, what="another instance has taken its addresses"):
        taken = {t.index: t.why for t in network.taken_indices()}
        taken |= {i.index: f"instance {i.name} has it" for i in _others(layout)}
        for index in INDICES:
            if index in taken:
                continue
            instance = Instance(layout.name, index, record.now(), boot_id())
            save(layout, instance)  # before the bridge: an unrecorded bridge without an alias would belong to nobody
            try:
                network.ensure_bridge(index, layout)
            except network.BridgeTaken:
                continue  # somebody with another state folder was faster
            return instance
        layout.record.unlink(missing_ok=True)
    raise InfraError(
        f"all {len(INDICES)} address blocks for instances are taken",
        hint="take an instance down: vmatrix infra down --name NAME",
        detail="\n".join(f"{i}: {why}" for i, why in sorted(taken.items())),
    )


def find_index(layout: Layout) -> int | None:
    """Return an instance's index from its record, else its kubeconfig, else its bridge; None when nothing tells.

    An index whose bridge names another instance is not this one's (any more): nothing of that index may be touched.
    """
    instance = load(layout)
    index = instance.index if instance is not None else _index_in_kubeconfig(layout)
    if index is None or network.belongs_to_another(index, layout):
        return network.owned_bridge_index(layout)
    return index


def _index_in_kubeconfig(layout: Layout) -> int | None:
    try:
        text = layout.kubeconfig.read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"server: https://10\.(\d+)\.0\.1:", text)
    index = int(found[1]) - FIRST_BLOCK if found is not None else -1
    return index if index in INDICES else None


def boot_id() -> str:
    """Return the id that the kernel drew at its last boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def _others(layout: Layout) -> Iterator[Instance]:
    for folder in sorted(layout.root.parent.glob("*/")):
        if folder != layout.root:
            found = load(Layout(folder.name, folder))
            if found is not None:
                yield found


def remove_files(layout: Layout) -> None:
    """Delete all files of an instance, its record last: as long as it is there, `down` knows the index."""
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


def forget_folder(layout: Layout) -> None:
    """Remove the folder of all instances and its lock file when no instance is left."""
    folder = layout.root.parent
    lock = folder / CLAIM_LOCK
    with locks.hold(lock, seconds=CLAIM_SECONDS, what="another instance has taken its addresses"):
        if {path.name for path in folder.iterdir()} == {CLAIM_LOCK}:
            lock.unlink()
            with suppress(OSError):  # somebody has begun anew
                folder.rmdir()
