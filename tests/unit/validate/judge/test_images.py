"""An image of another content than the mirror's under the same name is found."""

from __future__ import annotations

from harness.validate.findings import Unjudged
from harness.validate.judge.images import from_mirror, other_images
from tests.unit.validate import foreign, guests
from tests.unit.validate.moments import PAUSE
from tests.unit.validate.surrounded import DIGEST, setups

NAME = "pause:3.10.2"
EXPECTED = guests.expected()


def test_only_a_well_guest_passes() -> None:
    assert from_mirror(setups(), EXPECTED) == [NAME]
    assert other_images(setups(), {NAME: DIGEST}, EXPECTED) == []
    assert other_images({}, {}, EXPECTED)


def test_another_content_is_found() -> None:
    (found,) = other_images(setups(lambda raw: raw["images"].update({PAUSE: "sha256:b"})), {NAME: DIGEST}, EXPECTED)
    assert f"w-0 {NAME}: expected digest of the mirror" in str(found)


def test_an_image_that_the_mirror_lacks_and_no_image_at_all_are_found() -> None:
    assert len(other_images(setups(), {}, EXPECTED)) == 2
    (found,) = other_images(setups(lambda raw: raw.update(images={})), {NAME: DIGEST}, EXPECTED)
    assert "w-0: expected images of" in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = other_images(setups(), {}, guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
