"""The script of an upgrade as its role renders it: valid shell, and what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.test_templates import render

SCRIPTS = {
    "upgrade.sh": "kubeadm_upgrade/templates/upgrade.sh.j2",
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts as a control plane gets them."""
    return render("cp1-w1", tmp_path_factory.mktemp("upgrade"), render=SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_valid_shell_without_unset_leftovers(rendered: Path, script: str) -> None:
    text = (rendered / script).read_text(encoding="utf-8")
    assert "{{" not in text
    assert "{%" not in text
    proc.run(["sh", "-n", str(rendered / script)], timeout=10)


def test_the_first_control_plane_uploads_with_the_version_that_runs(rendered: Path) -> None:
    text = (rendered / "upgrade.sh").read_text(encoding="utf-8")
    assert "kubeadm=/usr/local/lib/releases/kubeadm/1.36.3/kubeadm" in text
    assert 'kubernetesVersion: $running/" "$config"' in text
