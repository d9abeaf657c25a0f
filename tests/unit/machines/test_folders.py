"""A folder of SSH sockets goes when its cell's process is dead and its infra cluster gone, and never before."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.machines.access import control_directory
from harness.machines.folders import OWNER, Owner, held, sweep

HERE, ELSEWHERE = Path("/state/here/kubeconfig"), Path("/state/elsewhere/kubeconfig")
HOUR = 3600.0
HOLDER = """
import sys, time
from pathlib import Path
from harness.machines.folders import Owner, held
with held(Path(sys.argv[1]), Owner(sys.argv[2], float(sys.argv[3]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return another process that holds the folder of a cell of the infra cluster HERE."""
    with holding(control_directory("run111", "cell"), time.time() + HOUR) as process:
        yield process
        process.kill()


def holding(folder: Path, expires_at: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDER, str(folder), str(HERE), str(expires_at)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_folder_of_a_living_run_stays_whatever_became_of_its_infra_cluster(
    holder: subprocess.Popen[str],
) -> None:
    assert sweep(HERE) == []
    assert control_directory("run111", "cell").is_dir()
    assert holder.poll() is None


def test_the_folder_of_a_killed_run_goes_with_its_infra_cluster_alone(holder: subprocess.Popen[str]) -> None:
    folder = control_directory("run111", "cell")
    (folder / "ansible").mkdir()
    holder.kill()
    holder.wait()
    assert sweep(ELSEWHERE) == []
    assert sweep() == []
    assert folder.is_dir()
    assert sweep(HERE) == [folder]
    assert not folder.exists()


def test_the_folder_of_an_expired_cell_goes_once_nobody_holds_it() -> None:
    folder = control_directory("run111", "cell")
    with holding(folder, time.time() - 1) as process:
        assert sweep() == []
        process.kill()
    assert sweep() == [folder]


def test_a_folder_is_taken_over_from_a_dead_process_and_held_again() -> None:
    folder = control_directory("run111", "cell")
    with holding(folder, time.time() - 1) as process:
        process.kill()
    with held(folder, Owner(str(HERE), time.time() + HOUR)):
        assert sweep(HERE) == []
    assert sweep(HERE) == [folder]


def test_folders_of_others_are_not_judged() -> None:
    unowned, unread = control_directory("run111", "a"), control_directory("run111", "b")
    unowned.mkdir()
    (unowned / "socket").touch()
    unread.mkdir()
    (unread / OWNER).write_text('{"later": true}')
    assert sweep(HERE) == []
    assert unowned.is_dir()
    assert unread.is_dir()


def test_what_a_process_leaves_that_is_killed_before_it_writes_anything_goes() -> None:
    empty, silent = (control_directory("run111", cell) for cell in "ab")
    empty.mkdir()
    silent.mkdir()
    (silent / OWNER).touch()
    assert sweep() == sorted([empty, silent])
    assert not empty.exists()
    assert not silent.exists()


def test_a_folder_that_is_taken_away_while_it_is_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = control_directory("run111", "cell")
    real = Path.mkdir
    taken: list[Path] = []

    def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        real(path, mode, parents, exist_ok)
        if not taken:
            taken.extend(sweep())

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with held(folder, Owner(str(HERE), time.time() + HOUR)):
        assert (folder / OWNER).read_text()
    assert taken == [folder]


def test_a_folder_that_a_playbook_has_made_anew_goes_when_it_is_done(tmp_path: Path) -> None:
    folder = control_directory("run111", "cell")
    (folder / "ansible").mkdir(parents=True)
    socket = folder / "ansible" / "socket"
    socket.touch()
    assert sweep() == []
    assert socket.exists()
    socket.unlink()
    assert sweep() == [folder]
    assert not folder.exists()
