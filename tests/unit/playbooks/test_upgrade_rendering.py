"""The scripts of upgrades, backups and recoveries as the roles render them: valid shell, and what they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.test_templates import render

SCRIPTS = {
    "look.sh": "version_skew/templates/look.sh.j2",
    "pull.sh": "upgrade_prefetch/templates/pull.sh.j2",
    "upgrade.sh": "kubeadm_upgrade/templates/upgrade.sh.j2",
    "token.sh": "drain_access/templates/token.sh.j2",
    "drain.sh": "node_drain/templates/drain.sh.j2",
    "uncordon.sh": "node_uncordon/templates/uncordon.sh.j2",
    "update.sh": "kubelet_update/templates/update.sh.j2",
    "addons.sh": "kubeadm_addons/templates/addons.sh.j2",
    "save.sh": "etcd_backup/templates/save.sh.j2",
    "quorum.sh": "etcd_restore/templates/look.sh.j2",
    "stop.sh": "etcd_restore/templates/stop.sh.j2",
    "restore.sh": "etcd_restore/templates/restore.sh.j2",
    "start-etcd.sh": "etcd_restore/templates/start-etcd.sh.j2",
    "start-api.sh": "etcd_restore/templates/start-api.sh.j2",
    "renew.sh": "certificates/templates/renew.sh.j2",
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


def test_a_restored_member_is_one_of_those_that_are_left(rendered: Path) -> None:
    text = (rendered / "restore.sh").read_text(encoding="utf-8")
    assert "--initial-cluster cp=https://10.0.0.2:2380" in text
    assert "--bump-revision" in text


def test_a_restore_that_is_repeated_keeps_what_was_there_before_the_first(rendered: Path, tmp_path: Path) -> None:
    tool = tmp_path / "etcdutl"  # makes the folder that it is asked for; what is in it is etcd's affair
    tool.write_text('#!/bin/sh\nwhile [ "$1" != --data-dir ]; do shift; done\nmkdir "$2"; echo new >"$2/member"\n')
    tool.chmod(0o755)
    (tmp_path / "recover").mkdir()
    data = tmp_path / "etcd"
    data.mkdir()
    (data / "member").write_text("old\n")
    script = (rendered / "restore.sh").read_text(encoding="utf-8")
    script = re.sub(r"/usr/local/lib/releases/etcdutl/\S+/etcdutl", str(tool), script)
    for place in ("/var/lib/etcd", "/etc/kubernetes/recover", "/run/etcd-snapshot.db"):
        script = script.replace(place, str(tmp_path / Path(place).name))

    for _ in range(2):
        (tmp_path / "etcd-snapshot.db").write_text("snapshot")
        proc.run(["sh", "-c", script], timeout=20)

    assert (data / "member").read_text() == "new\n"
    assert (tmp_path / "etcd.lost" / "member").read_text() == "old\n"
