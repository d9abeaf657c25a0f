"""A container is killed by its first process, found by what /proc says; nothing else is."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.infra.host import containers

Child = subprocess.Popen[bytes]


@pytest.fixture
def child() -> Iterator[Child]:
    """Return a process that ends by a signal alone."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as running:
        yield running
        running.kill()


def told(proc: Path, pid: int, container: str, numbers: str) -> None:
    """Have a folder say of a process what /proc would."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(f"0::/machine/kubepods-pod1.slice/cri-containerd-{container}.scope\n")
    (proc / str(pid) / "status").write_text(f"Name:\tvmatrix\nNSpid:\t{numbers}\n")


def test_the_first_process_of_a_container_is_killed(tmp_path: Path, child: Child) -> None:
    told(tmp_path, child.pid, "c0ffee", f"{child.pid}\t57\t1")
    assert containers.kill("c0ffee", tmp_path) == child.pid
    assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize(("container", "numbers"), [("beef", "57\t1"), ("c0ffee", "57\t8"), ("c0ffee", "1")])
def test_no_other_process_is_killed(tmp_path: Path, child: Child, container: str, numbers: str) -> None:
    told(tmp_path, child.pid, container, numbers)
    assert containers.kill("c0ffee", tmp_path) is None
    assert child.poll() is None
    (tmp_path / str(child.pid) / "status").unlink()
    assert containers.kill(container, tmp_path) is None
