"""What is written down of an instance: its index, and under which boot of the host it was made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.files import write_atomically
from harness.infra.host.layout import Layout


@dataclass(frozen=True)
class InstanceRecord:
    """What an instance's record holds.

    boot: the kernel's boot id; under another one, no process or machine of the instance can be alive.
    ending: `down` began, so the instance must not be repaired.
    pods: it has a machine that runs pods.
    """

    name: str
    index: int
    created: str
    boot: str
    ending: bool = False
    pods: bool = False

    @property
    def usable(self) -> bool:
        """Tell whether the instance can be repaired; else it can only be removed."""
        return not self.ending and self.boot == boot_id()


def load(layout: Layout) -> InstanceRecord | None:
    """Read an instance's record; None when there is none or it is unreadable."""
    try:
        raw = json.loads(layout.record.read_text(encoding="utf-8"))
        name, created, boot = (str(raw[key]) for key in ("name", "created", "boot"))
        ending, pods = bool(raw["ending"]), bool(raw.get("pods"))
        return InstanceRecord(name, int(raw["index"]), created, boot, ending, pods)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(layout: Layout, record: InstanceRecord) -> None:
    """Write an instance's record."""
    layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(layout.record, json.dumps(asdict(record), indent=2) + "\n")


def boot_id() -> str:
    """Return the id that the kernel drew at its last boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
