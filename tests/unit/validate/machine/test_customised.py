"""What a control plane shows of volumes and of its scheduler."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.validate.machine import customised
from harness.validate.machine.customised import main, volume
from harness.validate.topics.customised import customised_of


def test_a_volume_is_the_machines_own_or_not(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert volume(os.getpid(), str(tmp_path), str(tmp_path))[0] is True
    assert volume(os.getpid(), str(tmp_path), str(other))[0] is False
    assert "No such file" in volume(os.getpid(), str(tmp_path), str(tmp_path / "none"))[2]
    assert volume(os.getpid(), "/proc/sys", "/proc/sys")[1] == bool(os.statvfs("/proc/sys").f_flag & os.ST_RDONLY)


def running(*argv: str) -> list[dict[str, Any]]:
    return [{"name": "kube-scheduler", "pid": os.getpid(), "argv": ["kube-scheduler", *argv]}]


def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *argv: str, answer: Any) -> Any:
    monkeypatch.setattr(customised, "processes", lambda: running(*argv))
    monkeypatch.setattr(customised, "admins", lambda: None)
    monkeypatch.setattr(customised, "fetch", lambda *_: answer)
    main([json.dumps({"volumes": {"kube-scheduler": [["/etc", "/etc"]], "kube-apiserver": [["/a", "/a"]]}})])
    return customised_of(json.loads(capsys.readouterr().out))


def test_a_scheduler_tells_its_file_and_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yml"
    file.write_text("parallelism: 4\n", encoding="utf-8")
    answer = {"status": 200, "body": json.dumps({"componentconfig": {"parallelism": 4}})}
    seen = asked(monkeypatch, capsys, f"--config={file}", answer=answer)
    assert seen.scheduler.content == seen.scheduler.running == {"parallelism": 4}
    assert seen.scheduler.newer > 0  # this process is older than the file
    assert list(seen.volumes) == ["kube-scheduler"]
    assert seen.volumes["kube-scheduler"]["/etc"].same


def test_a_scheduler_without_a_file_or_an_answer_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = asked(monkeypatch, capsys, "--v=2", answer={"status": 403, "body": "no"}).scheduler
    assert (seen.file, seen.content, seen.status, seen.running) == ("", None, 403, {})
    monkeypatch.setattr(customised, "processes", list)
    main([json.dumps({"volumes": {}})])
    assert customised_of(json.loads(capsys.readouterr().out)).scheduler is None
