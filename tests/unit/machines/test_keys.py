""""""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from harness.files import write_atomically
from harness.machines.keys import PREFIX, PrivateFiles

SECONDS = 60.0  # a busy host
KILLED = """
import os, signal, sys
from pathlib import Path
from harness.files import write_atomically
from harness.machines.keys import PrivateFiles
files = PrivateFiles(Path(sys.argv[1]))
with files.use() as folder:
    write_atomically(folder / "key", b"secret", mode=0o600)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_private_is_readable_by_its_owner_and_goes_after_its_use(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    with files.use() as folder:
        path = folder / "key"
        write_atomically(path, b"secret", mode=0o600)
        assert path.read_bytes() == b"secret"
        assert path.stat().st_mode & 0o777 == 0o600
        assert files.folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    files.close()
    files.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.rglob("key"))) == 1
    PrivateFiles(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_what_others_use_stays(tmp_path: Path) -> None:
    other = PrivateFiles(tmp_path)
    foreign = tmp_path / f"{PREFIX}foreign"
    foreign.mkdir()
    with other.use() as folder:
        PrivateFiles(tmp_path).close()
        assert folder.is_dir()
    other.close()
    assert os.listdir(tmp_path) == [foreign.name]
