"""A node's file system: kind's files, the programs, and what is written for them."""

from __future__ import annotations

import json
from pathlib import Path

from harness.artifacts.node import tree


def test_kind_s_files_get_the_programs_and_the_sandbox_s_image(tmp_path: Path) -> None:
    root, files = tmp_path / "root", tmp_path / "files"
    (root / "etc/systemd").mkdir(parents=True)
    (files / "etc/containerd").mkdir(parents=True)
    (files / "etc/containerd/config.toml").write_text('  sandbox_image = "somewhere/pause:1"\n')
    (files / "kind/bin").mkdir(parents=True)
    (files / "kind/bin/hook.sh").write_text("#!/bin/sh\n")
    ctr = tmp_path / "ctr"
    ctr.write_text('#!/bin/sh\necho \'{"process": {"rlimits": [1], "args": []}}\'\n')

    tree.arrange(root, files, {"/usr/local/bin/ctr": ctr}, {"/kind/version": "v1.36.3"}, pause="x/pause:2")

    assert (root / "etc/containerd/config.toml").read_text() == '  sandbox_image = "x/pause:2"\n'
    spec = json.loads((root / "etc/containerd/cri-base.json").read_text())
    assert "rlimits" not in spec["process"]
    assert spec["hooks"]["createContainer"] == [tree.HOOK]
    assert (root / "kind/bin/hook.sh").stat().st_mode & 0o111
    assert (root / "etc/systemd/system/multi-user.target.wants/kubelet.service").is_symlink()
