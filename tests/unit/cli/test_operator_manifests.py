"""`vmatrix operator manifests`: what it prints, and what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.artifacts.own import push
from harness.artifacts.store import Store
from harness.cli import app, operator_manifests
from harness.errors import BadInput
from harness.operator.manifests import committed


def test_manifests_need_an_image_and_write_takes_nothing_else() -> None:
    refused = CliRunner().invoke(app, ["operator", "manifests"])
    assert "need one image" in str(refused.exception)
    refused = CliRunner().invoke(app, ["operator", "manifests", "--write", "--apart"])
    assert "--write writes deploy/operator" in str(refused.exception)
    printed = CliRunner().invoke(app, ["operator", "manifests", "--namespace", "ns", "--image", "host/vmatrix:1"])
    assert printed.exit_code == 0
    assert "image: host/vmatrix:1\n" in printed.stdout
    assert printed.stdout.count("\nkind: CustomResourceDefinition\n") == 7


def test_the_image_is_the_one_that_this_vmatrix_pushes() -> None:
    words = ["operator", "manifests", "--namespace", "ns", "--registry", "host:5000/group/"]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0, printed.output
    assert f"image: host:5000/group/vmatrix:{push.ref(Store()).version}\n" in printed.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--image", "a", "--registry", "b"],
        ["--registry", "https://b"],
        ["--image", ""],
        ["--image", "a b"],
        ["--image", "a\nb"],
        ["--image", "a", "--namespace", "UP"],
        ["--image", "a", "--namespace", ""],
        ["--image", "a", "--namespace", "-a"],
        ["--image", "a", "--base-registry", "https://b"],
        ["--image", "a", "--insecure-registry", "b/c"],
        ["--write", "--base-registry", "b"],
    ],
)
def test_an_image_is_named_once_and_as_registries_take_it(words: list[str]) -> None:
    refused = CliRunner().invoke(app, ["operator", "manifests", *words])
    assert isinstance(refused.exception, BadInput)
    assert refused.stdout == ""


def test_what_is_committed_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_manifests, "packaged_dir", lambda: tmp_path)
    assert CliRunner().invoke(app, ["operator", "manifests", "--write"]).exit_code == 0
    for name, text in committed().items():
        assert (tmp_path / "deploy" / "operator" / name).read_text(encoding="utf-8") == text


def test_registries_of_base_images_are_arguments_of_the_manager() -> None:
    words = ["operator", "manifests", "--image", "a", "--base-registry", "b", "--base-registry", "c:5000"]
    printed = CliRunner().invoke(app, [*words, "--insecure-registry", "c:5000"])
    assert printed.exit_code == 0, printed.output
    for option in ("--base-registry=b", "--base-registry=c:5000", "--insecure-registry=c:5000"):
        assert f"- {option}\n" in printed.stdout
