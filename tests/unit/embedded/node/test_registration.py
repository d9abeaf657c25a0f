"""The host as a node: its capacity."""

from __future__ import annotations

import pytest

from harness.embedded.node.registration import allocatable, memory_kib


def test_memory_is_read_from_meminfo() -> None:
    assert memory_kib("MemTotal:       24683400 kB\nMemFree: 1 kB\n") == 24683400
    with pytest.raises(ValueError, match="MemTotal"):
        memory_kib("MemFree: 1 kB\n")


def test_control_plane_keeps_its_memory() -> None:
    free = allocatable({"memory": "24683400Ki", "cpu": "2"})
    assert free == {"memory": f"{24683400 - 1536 * 1024}Ki", "cpu": "2"}
