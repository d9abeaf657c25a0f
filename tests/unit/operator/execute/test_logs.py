"""A kept log: compressed, at most so long, and whole where it fits."""

from __future__ import annotations

import base64
import gzip
import random

from harness.operator.execute.logs import MOST_BYTES, kept_in, packed
from harness.operator.execute.termination import Termination


def noise(characters: int) -> str:
    """Return text that does not compress well."""
    chosen = random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789\n", k=characters)  # noqa: S311 - a text, no secret
    return "".join(chosen)


def test_a_log_of_usual_length_is_kept_whole() -> None:
    text = "TASK [x] ***\nok: [cp-0]\n" * 5000
    assert gzip.decompress(packed(text)).decode() == text


def test_of_a_log_that_is_too_long_the_middle_is_left_out() -> None:
    text = f"the beginning {noise(3_000_000)} the end"
    made = packed(text)
    kept = gzip.decompress(made).decode()
    assert MOST_BYTES * 0.7 < len(made) <= MOST_BYTES
    assert kept.startswith("the beginning")
    assert kept.endswith("the end")
    assert "characters of the log were left out here" in kept


def test_the_same_log_is_the_same_object() -> None:
    assert packed("a\n") == packed("a\n")


def test_a_config_map_says_what_was_kept_and_nothing_before_it_was() -> None:
    end = Termination("failed", "product")
    content = base64.b64encode(packed("words\n")).decode()
    found = kept_in({"binaryData": {"log.gz": content}, "data": {"termination": end.to_text()}})
    assert found is not None
    assert (found.text, found.termination) == ("words\n", end)
    assert kept_in({"metadata": {}}) is None
