"""An image of an unknown recipe is a mistake of images.yml, found when the matrix is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.crossref import RECIPE, RECIPES, check_recipes

IMAGES = [
    {"name": "a", "source": {"kind": "build", "recipe": "debian-13"}},
    {"name": "b", "source": {"kind": "build", "recipe": "debain-12"}},
    {"name": "c", "source": {"kind": "url", "url": "https://images.example/c"}},
]


def test_a_recipe_that_nobody_has(tmp_path: Path) -> None:
    ((at, said),) = check_recipes({"images": IMAGES}, tmp_path)
    assert at == ("images", 1, "source", "recipe")
    assert "'debain-12'; did you mean 'debian-12'?" in said


def test_a_recipe_of_the_project(tmp_path: Path) -> None:
    own = tmp_path / RECIPES / "debain-12"
    own.mkdir(parents=True)
    assert len([*check_recipes({"images": IMAGES}, tmp_path)]) == 1
    (own / RECIPE).write_text("suite: bookworm\n", encoding="utf-8")
    assert [*check_recipes({"images": IMAGES}, tmp_path)] == []


@pytest.mark.parametrize("content", [None, [], {"images": 1}, {"images": [1, {}]}, {"images": [{"source": 1}]}])
def test_what_is_no_list_of_images_is_another_ones_to_refuse(tmp_path: Path, content: object) -> None:
    assert [*check_recipes(content, tmp_path)] == []
