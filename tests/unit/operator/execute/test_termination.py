"""The message of an executor's end: whatever is said fits, and is read as it was written where it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.operator.execute.termination import MOST_BYTES, Termination, clipped

OUTCOMES = st.sampled_from(["succeeded", "failed", "interrupted"])
BLAMES = st.sampled_from(["", "product", "infra", "harness", "user"])
RECAPS = st.dictionaries(st.text(max_size=60), st.text(max_size=60), max_size=100)


def ends(words: st.SearchStrategy[str], recaps: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[Termination]:
    """Return ends of any kind."""
    return st.builds(
        Termination,
        outcome=OUTCOMES,
        blame=BLAMES,
        play=words,
        task=words,
        host=words,
        summary=words,
        hint=words,
        recap=recaps,
        revision=words,
    )


LONG = st.integers(0, 9000).flatmap(lambda length: st.sampled_from("aä\n🎲").map(lambda letter: letter * length))


@given(ends(st.text(max_size=20), st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)))
def test_what_fits_is_read_as_it_was_written(end: Termination) -> None:
    assert Termination.parse(end.to_text()) == end


@given(ends(LONG, RECAPS))
def test_whatever_is_said_fits_and_says_whose_fault_it_is(end: Termination) -> None:
    text = end.to_text()
    assert len(text.encode()) <= MOST_BYTES
    found = Termination.parse(text)
    assert found is not None
    assert (found.outcome, found.blame) == (end.outcome, end.blame)


@given(st.text() | st.binary().map(lambda content: content.decode("latin-1")))
def test_any_other_text_is_no_message(text: str) -> None:
    assert Termination.parse(text) is None or text.startswith("{")


@pytest.mark.parametrize("text", ["", "Killed", "{}", '{"outcome": "fine"}', "[1]", '{"outcome": ["failed"]}'])
def test_a_program_that_was_killed_has_said_nothing(text: str) -> None:
    assert Termination.parse(text) is None


def test_a_long_summary_stays_readable_beside_the_task_and_the_host() -> None:
    end = Termination("failed", "product", "Nodes", "Join", "w-0", "x" * 9000, "look", {"w-0": "ok=1"}, "abc")
    found = Termination.parse(end.to_text())
    assert found is not None
    assert len(found.summary) >= 1200
    assert found.summary.endswith("x...")
    assert replace(found, summary=end.summary) == end


def test_a_recap_of_many_hosts_gives_way_before_the_summary() -> None:
    recap = {f"worker-{number}": "ok=61 changed=20 unreachable=0 failed=0" for number in range(200)}
    found = Termination.parse(Termination("failed", "product", summary="s" * 600, recap=recap).to_text())
    assert found is not None
    assert found.summary == "s" * 600
    assert 20 < len(found.recap) < 200


@pytest.mark.parametrize(("most", "made"), [(9, "something"), (8, "somet..."), (4, "s..."), (3, ""), (0, "")])
def test_a_text_shows_where_it_was_cut(most: int, made: str) -> None:
    assert clipped("something", most) == made
