"""Plugins that spare Ansible's processes what one has done already: they change how long a task takes, nothing else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
# A filter that leaves a file for each process that loads it, and a play whose tasks use it.
FILTER = """\
import os
from pathlib import Path
Path(__file__).with_name(f"loaded-by-{os.getpid()}").touch()
class FilterModule:
    def filters(self):
        return {"loud": str.upper}
"""
PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.assert: {that: "('one' | loud) == 'ONE'"}
    - ansible.builtin.assert: {that: "('two' | loud) == 'TWO'"}
    - ansible.builtin.assert: {that: "('three' | loud) == 'THREE'"}
"""
# A filter that says how many objects are not looked at, and after how many new ones others are.
KEPT = """\
import gc
class FilterModule:
    def filters(self):
        return {"kept": lambda _: f"kept {gc.get_freeze_count()}, first at {gc.get_threshold()[0]}"}
"""
SAYS_KEPT = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ '' | kept }}"}
"""


def played(place: Path, play: str, **environment: str) -> str:
    """Run a play on this host; return what Ansible says."""
    (place / "play.yml").write_text(play, encoding="utf-8")
    done = proc.run(
        [ANSIBLE, "-i", "here,", "-c", "local", place / "play.yml"],
        timeout=120,
        env={
            "ANSIBLE_HOME": str(place / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
            **environment,
        },
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("beforehand", [True, False])
def test_plugins_are_loaded_once_and_not_for_each_task(beforehand: bool, tmp_path: Path) -> None:
    (tmp_path / "filter_plugins").mkdir()
    (tmp_path / "filter_plugins" / "loud.py").write_text(FILTER, encoding="utf-8")
    folder = {"ANSIBLE_CALLBACK_PLUGINS": str(PLAYBOOKS / "callback_plugins")} if beforehand else {}
    said = played(tmp_path, PLAY, **folder)
    assert "ok=3" in said
    assert "WARNING" not in said
    assert len([*tmp_path.glob("filter_plugins/loaded-by-*")]) == (1 if beforehand else 3)


@pytest.mark.parametrize("beforehand", [True, False])
def test_a_tasks_process_does_not_look_for_garbage_among_what_there_was(beforehand: bool, tmp_path: Path) -> None:
    (tmp_path / "filter_plugins").mkdir()
    (tmp_path / "filter_plugins" / "kept.py").write_text(KEPT, encoding="utf-8")
    folder = {"ANSIBLE_CALLBACK_PLUGINS": str(PLAYBOOKS / "callback_plugins")} if beforehand else {}
    kept = re.search(r"kept (\d+), first at (\d+)", played(tmp_path, SAYS_KEPT, **folder))
    assert kept is not None
    assert (int(kept[1]) > 10_000, int(kept[2]) > 10_000) == (beforehand, beforehand)


def test_ansible_finds_them_next_to_the_playbooks(tmp_path: Path) -> None:
    """Neither a setting nor the harness tells it to."""
    for folder in ("callback_plugins", "filter_plugins"):
        (tmp_path / folder).mkdir()
    (tmp_path / "filter_plugins" / "loud.py").write_text(FILTER, encoding="utf-8")
    (own,) = (PLAYBOOKS / "callback_plugins").glob("*.py")
    (tmp_path / "callback_plugins" / own.name).write_bytes(own.read_bytes())
    assert "ok=3" in played(tmp_path, PLAY)
    assert len([*tmp_path.glob("filter_plugins/loaded-by-*")]) == 1
