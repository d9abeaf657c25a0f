"""How much memory this host has left."""

from __future__ import annotations

from pathlib import Path


def memory_available_mib(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return how much of this host's memory is free or can be freed at once, in MiB."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines())
    return int(fields["MemAvailable"].split()[0]) // 1024
