"""Every image that upstream's specs name is made here, or is named as missing with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts import e2e_images
from harness.artifacts.catalogue import ComposedImage, load
from harness.errors import BadInput

CATALOGUE, IMAGES = load(), e2e_images.load()


@pytest.mark.parametrize("version", IMAGES.lists)
def test_every_image_is_made_or_says_why_not(version: str) -> None:
    listed = e2e_images.listed(CATALOGUE, version)
    assert sorted([*listed.made, *listed.missing]) == sorted(IMAGES.lists[version])
    assert not [image for image, why in listed.missing.items() if why == e2e_images.UNKNOWN]


def test_no_reason_is_left_of_an_image_that_nobody_lists() -> None:
    every = {image for images in IMAGES.lists.values() for image in images}
    missing = {image for image in every if not e2e_images.has(CATALOGUE, image)}
    for pattern in IMAGES.missing:
        one = e2e_images.E2EImages(missing={pattern: "this one"}, lists=IMAGES.lists)
        assert any(one.why_missing(image) == "this one" for image in missing), pattern


def test_every_release_of_the_catalogue_has_its_list() -> None:
    assert set(IMAGES.lists) == set(CATALOGUE.kubernetes)


@pytest.mark.parametrize("version", IMAGES.lists)
def test_two_images_of_a_release_that_specs_replace_by_each_other_differ(version: str) -> None:
    for name in ("nginx", "httpd"):
        tags = [image.rpartition(":")[2] for image in IMAGES.lists[version] if f"/{name}:" in image]
        found = CATALOGUE.images[f"e2e-test-images/{name}"]
        assert isinstance(found, ComposedImage)
        assert len({found.suite_of(tag) for tag in tags}) == len(tags)


def test_an_image_without_a_recipe_and_without_a_reason_is_said_to_be_one() -> None:
    assert IMAGES.why_missing("e2e-test-images/never:1") == e2e_images.UNKNOWN
    assert e2e_images.listed(CATALOGUE, "0.0.0") == e2e_images.Listed((), {})


def test_a_patch_that_nobody_listed_has_the_images_of_its_minor_and_its_own() -> None:
    images = {**CATALOGUE.release("1.36.3").images, "e2e-test-images/agnhost": "2.66.1"}
    release = CATALOGUE.release("1.36.3").model_copy(update={"images": images})
    catalogue = CATALOGUE.model_copy(update={"kubernetes": {**CATALOGUE.kubernetes, "1.36.9": release}})
    made = set(e2e_images.listed(catalogue, "1.36.9").made)
    assert made == {*e2e_images.listed(CATALOGUE, "1.36.3").made, "e2e-test-images/agnhost:2.66.1"}


def test_what_is_made_is_obtained_by_its_name_in_the_catalogue() -> None:
    names = {str(ref) for ref in e2e_images.refs(CATALOGUE, "1.36.3")}
    assert {"image/e2e-test-images/nginx@1.15-4", "image/pause@3.10.2"} <= names


def test_a_file_that_does_not_fit_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "e2e_images.yml"
    path.write_text("missing: {}\nlists: {'1.36.3': []}\n")
    with pytest.raises(BadInput, match="not a valid list of images"):
        e2e_images.load(path)
