"""The catalogue of disk images, and their recipes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness import paths
from harness.artifacts.disk import catalogue, load
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
    loaded = [catalogue.load_recipe(RECIPES, source.recipe, bootable=source.bootable) for source in built]
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


def _recipe(folder: Path, name: str, text: str, files: dict[str, str] | None = None) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "recipe.yml").write_text(text)
    for path, content in (files or {}).items():
        target = folder / name / "files" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


def test_a_recipe_is_joined_with_its_base(tmp_path: Path) -> None:
    _recipe(tmp_path, "base", "packages: [a, b]\nmask: [x.timer]\n", {"etc/one": "1"})
    _recipe(tmp_path, "top", "base: base\nsuite: trixie\npackages: [b, c]\n", {"etc/two": "2"})
    found = catalogue.load_recipe(tmp_path, "top")
    assert (found.suite, found.packages, found.mask) == ("trixie", ("a", "b", "c"), ("x.timer",))
    assert found.files == (tmp_path / "base/files", tmp_path / "top/files")


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("suite: trixie\npackages: [a, b]\n", {"etc/x": "1"}),
        ("suite: bookworm\npackages: [a]\n", {"etc/x": "1"}),
        ("suite: trixie\npackages: [a]\nmask: [y]\n", {"etc/x": "1"}),
        ("suite: trixie\npackages: [a]\n", {"etc/x": "2"}),
        ("suite: trixie\npackages: [a]\n", {"etc/x": "1", "etc/y": ""}),
    ],
    ids=["package", "suite", "mask", "content", "file"],
)
def test_every_change_of_a_recipe_makes_another_key(tmp_path: Path, text: str, files: dict[str, str]) -> None:
    _recipe(tmp_path, "r", "suite: trixie\npackages: [a]\n", {"etc/x": "1"})
    before = catalogue.load_recipe(tmp_path, "r").key(size_gib=10)
    _recipe(tmp_path, "r", text, files)
    assert catalogue.load_recipe(tmp_path, "r").key(size_gib=10) != before


def test_the_key_is_the_same_for_the_same_recipe_and_another_for_another_disk_size(tmp_path: Path) -> None:
    _recipe(tmp_path, "r", "suite: trixie\n")
    first, second = catalogue.load_recipe(tmp_path, "r"), catalogue.load_recipe(tmp_path, "r")
    assert first.key(size_gib=10) == second.key(size_gib=10)
    assert first.key(size_gib=10) != first.key(size_gib=11)


def test_bases_in_a_circle_are_refused(tmp_path: Path) -> None:
    _recipe(tmp_path, "a", "base: b\nsuite: trixie\n")
    _recipe(tmp_path, "b", "base: a\n")
    with pytest.raises(BadInput, match="form a cycle, back to a"):
        catalogue.load_recipe(tmp_path, "a")


def test_a_recipe_without_a_suite_is_refused(tmp_path: Path) -> None:
    _recipe(tmp_path, "a", "packages: [x]\n")
    with pytest.raises(BadInput, match="has no `suite`"):
        catalogue.load_recipe(tmp_path, "a")


def test_a_recipe_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere/recipe.yml"):
        catalogue.load_recipe(tmp_path, "nowhere")


def test_any_recipe_becomes_bootable_by_another_one_that_is_joined_last(tmp_path: Path) -> None:
    _recipe(tmp_path, "r", "suite: trixie\npackages: [a]\nenable: [a.service]\n")
    _recipe(tmp_path, "bootable", "packages: [a, kernel]\nenable: [b.service]\nkernel_arguments: [rw]\n", {"etc/x": ""})
    plain, found = catalogue.load_recipe(tmp_path, "r"), catalogue.load_recipe(tmp_path, "r", bootable=True)
    assert (found.name, found.suite, found.packages, found.bootable) == ("r", "trixie", ("a", "kernel"), True)
    assert (found.enable, found.kernel_arguments) == (("a.service", "b.service"), ("rw",))
    assert found.files == (tmp_path / "bootable/files",)
    assert not plain.bootable
    assert plain.key(size_gib=1) != found.key(size_gib=1)


@pytest.mark.parametrize("more", ["kernel_arguments: [quiet]\n", "enable: [c.service]\n"])
def test_what_only_bootable_images_have_is_part_of_their_key(tmp_path: Path, more: str) -> None:
    _recipe(tmp_path, "r", "suite: trixie\n")
    _recipe(tmp_path, "bootable", "packages: [kernel]\n")
    before = catalogue.load_recipe(tmp_path, "r", bootable=True).key(size_gib=1)
    _recipe(tmp_path, "bootable", "packages: [kernel]\n" + more)
    assert catalogue.load_recipe(tmp_path, "r", bootable=True).key(size_gib=1) != before
