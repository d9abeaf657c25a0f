"""ansible.cfg as Ansible itself reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.ansible_configuration import ROLES, configuration


def test_an_ansible_without_ansible_config_is_helped_out_by_ours(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nroles_path = own\n", encoding="utf-8")
    env = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    known = configuration(tmp_path / "nowhere", tmp_path, env, ssh=False)
    assert known.listed(ROLES) == [str(tmp_path / "own")]
    assert known.ssh == {}


@pytest.mark.parametrize("text", ["no section\n", "[defaults]\nforks = many\n"])
def test_a_file_that_ansible_refuses_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "ansible.cfg").write_text(text, encoding="utf-8")
    assert configuration(tmp_path, tmp_path, {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}).listed("nope") == []
