"""Pushing: under each tag, and with the log-in that was given, which stays nowhere."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from harness.artifacts.own import push as pushing
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Artifact, Store
from harness.errors import InfraError

CRANE = """\
#!/bin/sh
echo "$@" >>{0}/calls
test -z "$DOCKER_CONFIG" || {{ cp "$DOCKER_CONFIG/config.json" {0}/config.json; echo "$DOCKER_CONFIG" >{0}/folder; }}
exit {1}
"""


@pytest.fixture
def image(tmp_path: Path) -> Artifact:
    return Artifact(Ref("image/vmatrix", "1-abc"), "image", tmp_path / "image", {"digest": "sha256:1"})


def crane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
    program = tmp_path / "crane"
    program.write_text(CRANE.format(tmp_path, status))
    program.chmod(stat.S_IRWXU)
    monkeypatch.setattr(pushing, "crane", lambda _store: program)
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)


def test_an_image_is_pushed_under_each_tag(tmp_path: Path, image: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    crane(tmp_path, monkeypatch)
    pushing.push(image, "host:5000/group", ["1-abc", "main"], Store(), login=pushing.Login(), insecure=True)
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"push --insecure {tmp_path}/image/files host:5000/group/vmatrix:1-abc",
        f"push --insecure {tmp_path}/image/files host:5000/group/vmatrix:main",
    ]
    assert not (tmp_path / "config.json").exists()


def test_a_log_in_is_told_to_the_registry_alone(
    tmp_path: Path, image: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane(tmp_path, monkeypatch)
    pushing.push(image, "host/group", ["1"], Store(), login=pushing.Login("me", "secret"), insecure=False)
    told = json.loads((tmp_path / "config.json").read_text())
    assert base64.b64decode(told["auths"]["host"]["auth"]) == b"me:secret"
    assert "secret" not in (tmp_path / "calls").read_text()
    assert not os.path.exists((tmp_path / "folder").read_text().strip())


def test_a_registry_that_refuses_is_the_infrastructures(
    tmp_path: Path, image: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane(tmp_path, monkeypatch, status=1)
    with pytest.raises(InfraError, match="host/vmatrix:1 could not be pushed"):
        pushing.push(image, "host", ["1"], Store(), login=pushing.Login(), insecure=False)
