"""What is laid above the kept layers, and the Dockerfile that lays a checkout's files above an image that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import __version__
from harness.artifacts.catalogue import LayeredImage, load
from harness.artifacts.own import image, sources
from harness.artifacts.own.layers import COMMANDS, HOME, SITE
from harness.artifacts.own.push import REPOSITORY
from harness.operator.build.dockerfile import outline
from tests.unit.pages import ROOT

OURS = {"harness/a.py": "a = 1\n", "harness/packaged/b.yml": "b: 1\n"}


def test_a_folder_has_our_files_and_commands_as_the_image_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: tmp_path / "from" / name for name in OURS}
    for name, path in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OURS[name], encoding="utf-8")
    monkeypatch.setattr(sources, "ours", lambda: made)
    image.lay_out(tmp_path / "to", "3.13")
    site = tmp_path / "to" / SITE.format("3.13")
    assert {name: (site / name).read_text(encoding="utf-8") for name in OURS} == OURS
    assert (site / f"vmatrix-{__version__}.dist-info" / "METADATA").is_file()
    assert (tmp_path / "to" / COMMANDS / "vmatrix").stat().st_mode & 0o111


def test_the_dockerfile_of_the_operator_is_about_the_image_that_there_is() -> None:
    text = (ROOT / "deploy" / "operator" / "Dockerfile").read_bytes()
    outline(text, "Dockerfile", registries=["mirror:5000"], args={"BASE": "mirror:5000/vmatrix:1"}, target=None)
    known, lines = load().image(REPOSITORY), text.decode().splitlines()
    assert isinstance(known, LayeredImage)
    assert all(f"/{SITE.format(known.python.version)}/" in line for line in lines if "dist-packages" in line)
    assert lines[-2:] == [f"USER {known.user}", f"WORKDIR {HOME}"], "as in the image that it is laid upon"
