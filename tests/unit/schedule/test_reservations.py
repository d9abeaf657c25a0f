"""The book of reservations: what stands in it, who counts as alive, and who has to wait for whom."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InfraError
from harness.kube import Cluster
from harness.schedule.admission import refusal
from harness.schedule.placement import Demand, PodRequest
from harness.schedule.reservations import Book, Entry, Ledger, dump, load
from tests.unit.schedule.matrix import bound, clock, node, surveyed

NAMES = st.sampled_from(["a", "b", "c"])
PODS = st.lists(st.builds(PodRequest, st.integers(0, 5), st.integers(0, 5)), max_size=4)
ENTRIES = st.lists(st.builds(Entry, NAMES, NAMES, NAMES, st.builds(Demand, PODS.map(sorted).map(tuple))), max_size=4)
BOOKS = st.builds(Book, st.dictionaries(NAMES, st.integers(1, 9)), ENTRIES.map(tuple), ENTRIES.map(tuple))


def entry(cell: str, *memory: int, run: str = "r", holder: str = "h") -> Entry:
    return Entry(holder, run, cell, Demand(tuple(PodRequest(m, 205) for m in memory)))


@given(BOOKS)
def test_what_is_written_is_read(book: Book) -> None:
    assert load(dump(book), where="here") == book


@pytest.mark.parametrize("text", ["{", "[]", "1", '{"format": 2}', '{"format": 1}', '{"format": 1, "beats": 3}'])
def test_what_cannot_be_read_is_no_empty_book(text: str) -> None:
    with pytest.raises(InfraError, match="cannot be read") as caught:
        load(text, where="lease x/y")
    assert "lease x/y" in caught.value.hint


def test_no_text_is_an_empty_book() -> None:
    assert load("", where="here") == Book()


def test_a_reservation_settles_a_claim_and_replaces_an_older_one() -> None:
    book = Book().claim(entry("c", 1)).reserve(entry("c", 1)).reserve(entry("c", 2))
    assert book.claims == ()
    assert book.reservations == (entry("c", 2),)
    assert book.release("r", "c") == Book()


def test_a_sign_of_life_needs_something_to_live_for() -> None:
    book = Book().reserve(entry("c", 1)).beat("h", 7)
    assert book.beats == {"h": 7}
    assert book.release("r", "c").beat("h", 8).beats == {}


def test_a_holder_whose_beat_stands_still_is_dead_by_the_observers_own_clock() -> None:
    moments = [0.0]
    observer = Ledger(cast(Cluster, None), "observer", ttl=90, now=clock(moments))
    book = Book().reserve(entry("c", 1)).beat("h", 1)
    for moment, beat, alive in ((0, 1, True), (80, 1, True), (85, 2, True), (170, 2, True), (175, 2, False)):
        moments.append(float(moment))
        assert bool(observer._living(book.beat("h", beat)).reservations) is alive
    assert observer._living(Book()) == Book()
    moments.append(1000.0)
    assert observer._living(book.beat("h", 3)).reservations  # seen anew, so it gets its time anew


def test_an_entry_without_a_holder_counts_for_nothing_and_ones_own_never_dies() -> None:
    moments = [0.0]
    holder = Ledger(cast(Cluster, None), "h", ttl=90, now=clock(moments))
    mine = Book().reserve(entry("c", 1)).beat("h", 1)
    assert holder._living(mine) == mine
    moments.append(1e6)
    assert holder._living(mine) == mine
    assert holder._living(Book(reservations=(entry("c", 1),))) == Book()


def test_pods_of_a_reserved_cell_count_once() -> None:
    seen = surveyed([node("a", 1000)], bound("c", 400))
    book = Book().reserve(entry("c", 400, 100))
    assert refusal(seen, book, entry("d", 500)) == ""
    why = refusal(seen, book, entry("d", 501))
    assert "it needs 501 MiB" in why
    assert "a: 600 MiB" in why
    assert "reserved by others: 100 MiB and 0.205 CPUs on 1 machine" in why


def test_machines_that_wait_for_a_node_count_even_when_their_reservation_is_gone() -> None:
    seen = surveyed([node("a", 1000)], bound("lost", 600, ""))
    assert refusal(seen, Book(), entry("d", 400)) == ""
    assert refusal(seen, Book(), entry("d", 401)) != ""
    assert refusal(seen, Book(), entry("lost", 1000)) == ""


def test_a_claim_is_kept_free_for_its_owner_and_the_first_claim_comes_first() -> None:
    seen = surveyed([node("a", 1000)], bound("running", 300, run="x"))
    book = Book().claim(entry("large", 600, run="one")).claim(entry("later", 500, run="two"))
    assert refusal(seen, book, entry("large", 600, run="one")) == ""
    assert "yields to large of run one" in refusal(seen, book, entry("later", 500, run="two"))
    assert "yields to large of run one" in refusal(seen, book, entry("small", 101, run="two"))
    assert refusal(seen, Book().claim(entry("large", 600, run="one")), entry("small", 100, run="two")) == ""
