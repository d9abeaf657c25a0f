"""`vmatrix operator image`: what it makes, pushes and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.artifacts.own import push as pushing
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Artifact
from harness.cli import app

IMAGE = Artifact(Ref("image/vmatrix", "1-abc"), "image", Path("/cache"), {"digest": "sha256:1", "size": 10 << 20})


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(pushing, "obtain_image", lambda _store, _progress: IMAGE)
    monkeypatch.setattr(pushing, "publish", lambda *_: calls.append("published"))
    monkeypatch.setattr(
        pushing, "push", lambda _image, registry, tags, _store, login, insecure: calls.append((registry, tags, login))
    )
    return calls


def test_it_says_what_it_made(pushed: list[Any]) -> None:
    told = CliRunner().invoke(app, ["operator", "image"]).stdout
    assert told.splitlines() == [
        "reference  vmatrix:1-abc",
        "size       10 MiB",
        "digest     sha256:1",
        "layout     /cache/files",
    ]
    assert pushed == []


def test_it_is_pushed_with_the_pipelines_own_log_in(pushed: list[Any]) -> None:
    job = {"CI_REGISTRY_USER": "job", "CI_REGISTRY_PASSWORD": "token"}
    words = ["operator", "image", "--push", "host/group/", "--tag", "main", "--publish"]
    told = CliRunner().invoke(app, words, env=job).stdout
    assert told.startswith("reference  host/group/vmatrix:1-abc\n")
    assert pushed == [("host/group", ["1-abc", "main"], pushing.Login("job", "token")), "published"]


@pytest.mark.parametrize("words", [["--user", "me"], ["--password", "x"]])
def test_half_a_log_in_is_refused(pushed: list[Any], words: list[str]) -> None:
    job = {"CI_REGISTRY_USER": "", "CI_REGISTRY_PASSWORD": ""}
    refused = CliRunner().invoke(app, ["operator", "image", "--push", "host", *words], env=job)
    assert "is given alone" in str(refused.exception)
    assert pushed == []


def test_what_is_no_registry_is_refused_before_the_image_is_made(pushed: list[Any]) -> None:
    refused = CliRunner().invoke(app, ["operator", "image", "--push", "https://host"])
    assert str(refused.exception) == "https://host is no registry"
    assert pushed == []


@pytest.mark.parametrize("words", [["--tag", "main"], ["--insecure"]])
def test_how_to_push_needs_where(pushed: list[Any], words: list[str]) -> None:
    refused = CliRunner().invoke(app, ["operator", "image", *words])
    assert "--push says where" in str(refused.exception)
    assert pushed == []
