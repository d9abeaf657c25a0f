"""The catalogue of disk images, the shipped one and wrong ones."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness import paths
from harness.artifacts.disk import load, recipe
from harness.errors import BadInput
from harness.spec.models import BuildSource

SHIPPED = paths.project_dir() / "matrix" / "images.yml"
RECIPES = paths.project_dir() / "vm-templates" / "images"
IMAGE = """
  - name: {name}
    os: debian
    version: "13"
    source: {source}
    user: debian
    size_gib: 10
    end_of_life: 2030-06-30
"""
URL = "{kind: url, url: 'https://example.invalid/a.qcow2'%s}"


def _file(folder: Path, *entries: tuple[str, str]) -> Path:
    text = "images:" + "".join(IMAGE.format(name=name, source=source) for name, source in entries)
    (folder / "images.yml").write_text(text)
    return folder / "images.yml"


def test_the_shipped_catalogue_loads_and_its_recipes_exist() -> None:
    built = [image.source for image in load(SHIPPED).images if isinstance(image.source, BuildSource)]
    loaded = [recipe.load(RECIPES, source.recipe, bootable=source.bootable) for source in built]
    assert [(each.suite, each.bootable) for each in loaded] == [
        ("trixie", False),
        ("bookworm", False),
        ("trixie", True),
    ]


def test_no_shipped_image_is_out_of_support() -> None:
    assert {image.name for image in load(SHIPPED).images if image.end_of_life < date.today()} == set()


def test_an_unknown_name_says_which_one_is_near() -> None:
    with pytest.raises(BadInput, match="did you mean 'debian-13'"):
        load(SHIPPED).find("debain-13")


def test_an_image_by_url_needs_one_checksum_or_its_list(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"images.yml:5: .*needs either `checksum` or `checksum_url`"):
        load(_file(tmp_path, ("a", URL % "")))


def test_a_checksum_of_the_wrong_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"images.yml:5: .*checksum"):
        load(_file(tmp_path, ("a", URL % ", checksum: 'sha256:abc'")))


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    build = "{kind: build, recipe: debian-13}"
    with pytest.raises(BadInput, match="names must be unique; duplicates: a"):
        load(_file(tmp_path, ("a", build), ("a", build)))


def test_a_misspelt_key_says_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean recipe"):
        load(_file(tmp_path, ("a", "{kind: build, recipe: debian-13, recipie: x}")))
