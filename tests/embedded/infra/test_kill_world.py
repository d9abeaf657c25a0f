"""The world of tests/kill: it has this host's files and nothing else of it, and what is done there stays there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.kill import world

SECONDS = 300.0  # against hanging
ETC = Path("/etc/hostname")
SCRIPT = """
set -eu
echo written > /etc/vmatrix-kill-world; rm -f /etc/hostname; echo seen > /tmp/vmatrix-kill-world
ip link add vmxworld type bridge; ip netns add vmxworld; mount -t tmpfs tmpfs /mnt
test -e /run/written/etc/vmatrix-kill-world; test -e /run/written/tmp/vmatrix-kill-world
test "$(ls /sys/class/net | sort | tr '\\n' ' ')" = "lo vmxworld "
for group in /sys/fs/cgroup /sys/fs/cgroup/*/; do if test -e $group/cgroup.procs; then mkdir $group/below; fi; done
sleep 1000 &
ls -d /proc/[0-9]* | wc -l
echo $KILL_WORLD
exit 7
"""


def inside(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a world."""
    command = [sys.executable, "-m", world.__name__, "sh", "-c", script]
    root = Path(world.__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_what_is_done_in_a_world_stays_there_and_goes_with_it() -> None:
    before = set(ETC.parent.iterdir())
    done = inside(SCRIPT)
    assert done.returncode == 7, done.stderr
    processes, name = done.stdout.split()
    assert int(processes) < 10, "it sees processes of this host"
    assert set(ETC.parent.iterdir()) == before
    assert not Path("/tmp/vmatrix-kill-world").exists()
    assert "vmxworld" not in {*os.listdir("/sys/class/net"), *os.listdir("/run/netns")}
    assert [group for group in world.hierarchies() if (group / name).exists()] == []
    assert list(Path("/var/tmp").glob(f"{name}*")) == []


def test_a_loop_device_that_a_world_leaves_is_named_and_detached() -> None:
    script = (
        "mkdir -p /root/$KILL_WORLD; truncate -s 1M /root/$KILL_WORLD/disk; losetup -f --show /root/$KILL_WORLD/disk"
    )
    done = inside(script)
    assert done.returncode == 1, done.stderr
    device = done.stdout.strip()
    assert f"the world left {device} of" in done.stderr
    backing = Path("/sys/block", Path(device).name, "loop", "backing_file")
    assert not backing.exists() or "/kill-" not in backing.read_text(encoding="utf-8")
