"""The size of a job's artifacts, before GitLab refuses them."""

from __future__ import annotations

from pathlib import Path

from harness.gitlab.upload import findings


def test_files_that_are_no_artifacts_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "runs" / "r1" / "cell" / "logs").mkdir(parents=True)
    (tmp_path / "runs" / "r1" / "cell" / "id_ed25519").write_bytes(b"x" * 2**21)
    assert list(findings(tmp_path, limit_mib=1)) == []


def test_artifacts_above_the_limit_are_reported_once(tmp_path: Path) -> None:
    logs = tmp_path / "runs" / "r1" / "cell" / "logs"
    logs.mkdir(parents=True)
    (logs / "deploy.log").write_bytes(b"x" * 2**20)
    (logs.parent.parent / "junit.xml").write_bytes(b"x" * 2**20)
    (logs / "link").symlink_to(logs / "deploy.log")
    assert list(findings(tmp_path, limit_mib=2)) == []
    (found,) = findings(tmp_path, limit_mib=1)
    assert "2 MiB" in found.what
    assert "--artifacts-limit" in found.remedy
