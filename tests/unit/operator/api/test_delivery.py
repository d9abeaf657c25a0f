"""What a Delivery refuses, at which field and in which words, and what it takes."""

from __future__ import annotations

import pytest

from harness.operator.api.delivery import read_delivery
from tests.unit.operator.api.deliveries import BAD, GOOD, Json, delivery


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_named_with_its_field_and_a_remedy(case: str) -> None:
    obj, field, words = BAD[case]
    mistakes = read_delivery(obj)[1]
    assert [one.field for one in mistakes] == [field]
    assert words in mistakes[0].text
    assert mistakes[0].remedy


@pytest.mark.parametrize("case", GOOD)
def test_what_is_sound_is_taken(case: str) -> None:
    assert read_delivery(GOOD[case])[1] == []


@pytest.mark.parametrize(("repository", "refused"), [(None, False), ("registry.example:5000/team/shop", False)])
def test_the_name_of_the_image_is_free_before_the_first_build(repository: str | None, refused: bool) -> None:
    status: Json = {"repository": repository} if repository else {}
    assert bool(read_delivery({**delivery(), "status": status})[1]) == refused


def test_the_name_of_the_image_stays_after_the_first_build() -> None:
    (mistake,) = read_delivery({**delivery(), "status": {"repository": "registry.example/other"}})[1]
    assert mistake.field == "spec.build.image"
    assert "cannot change after the first build" in mistake.message
