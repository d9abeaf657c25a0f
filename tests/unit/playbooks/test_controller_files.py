"""Private files on the controller, as Ansible writes them: text, or a file that takes another one's place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS

ANSIBLE = Path(sys.executable).parent / "ansible"


def have(place: Path, file: dict[str, Any], *options: str) -> proc.Completed:
    """Run the action for one file, on a machine that does not exist."""
    return proc.run(
        [ANSIBLE, "all", "-i", "nowhere,", "-m", "controller_files", "-a", json.dumps({"files": [file]}), *options],
        timeout=60,
        env={
            "ANSIBLE_HOME": str(place / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_ACTION_PLUGINS": str(PLAYBOOKS / "action_plugins"),
        },
        check=False,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the place of a file that is there and is no text."""
    place = tmp_path / "snapshot.db"
    place.write_bytes(b"\xff\x00earlier")
    return place


def test_a_file_that_is_no_text_is_replaced_by_text(path: Path, tmp_path: Path) -> None:
    done = have(tmp_path, {"path": str(path), "content": "new"})
    assert "CHANGED" in done.stdout, done.stdout + done.stderr
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_takes_the_place_of_an_earlier_one_and_becomes_private(path: Path, tmp_path: Path) -> None:
    part = tmp_path / "snapshot.db.part"
    part.write_bytes(b"\xff\x00later")
    part.chmod(0o644)
    file = {"path": str(path), "source": str(part)}

    have(tmp_path, file, "--check")
    assert path.read_bytes() == b"\xff\x00earlier"
    done = have(tmp_path, file)

    assert "CHANGED" in done.stdout, done.stdout + done.stderr
    assert path.read_bytes() == b"\xff\x00later"
    assert path.stat().st_mode & 0o777 == 0o600
    assert not part.exists()


def test_what_to_have_is_said_once(path: Path, tmp_path: Path) -> None:
    assert "one of the following is required: content, source" in have(tmp_path, {"path": str(path)}).stdout
    both = {"path": str(path), "content": "new", "source": "x"}
    assert "mutually exclusive: content|source" in have(tmp_path, both).stdout
    assert path.read_bytes() == b"\xff\x00earlier"
