"""A history with whatever damage it has is read; uniting and cutting down lose nothing that they should keep."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.check_result import telling
from harness.history.lines import cut_down, forget, missing, once, parse, read, united
from harness.history.record import Record, from_line, to_line
from harness.model import Outcome
from tests.unit.history.make import checked, checks_in, record
from tests.unit.history.synthetic import NOW, records

YEAR = [record(night, of=40) for night in range(40)]
WHOLE = b"".join(map(to_line, YEAR))
FOREIGN = b'{"v":9,"id":"from the future"}'


@given(st.binary(max_size=400))
def test_any_bytes_are_a_history(content: bytes) -> None:
    found = read([("x", content)])
    assert found.records == ()
    assert len(found.skipped) == len(list(parse(content)))


@given(st.binary(max_size=40), st.integers(0, len(WHOLE)))
@settings(max_examples=60)
def test_damage_takes_only_the_lines_that_it_hits(damage: bytes, place: int) -> None:
    content = WHOLE[:place] + damage + WHOLE[place + len(damage) :]
    hit = WHOLE[max(0, place - 1) : place + len(damage) + 1].count(b"\n") + 1
    assert len(read([("x", content)]).records) >= len(YEAR) - hit - damage.count(b"\n")


def test_a_torn_last_line_is_counted_and_named() -> None:
    found = read([("nightly.jsonl", WHOLE[:-20])])
    assert found.records == tuple(YEAR[:-1])
    (skipped,) = found.skipped
    assert (skipped.source, skipped.line) == ("nightly.jsonl", 40)
    assert skipped.why.startswith("Invalid JSON: EOF")


def test_the_same_record_twice_counts_once() -> None:
    found = read([("a", WHOLE), ("b", WHOLE)])
    assert (found.records, found.duplicates) == (tuple(YEAR), 40)


def test_of_a_record_with_and_without_details_the_one_with_them_counts() -> None:
    full = checked(record(), {"a: b": "f"})
    for lines in ([full, forget(full)], [forget(full), full]):
        assert read([("x", b"".join(map(to_line, lines)))]).records == (full,)


def test_records_come_in_the_order_of_their_start() -> None:
    assert read([("x", b"".join(map(to_line, reversed(YEAR))))]).records == tuple(YEAR)


lines = st.lists(st.sampled_from([*map(to_line, YEAR[:6]), FOREIGN + b"\n", b"broken\n"]), max_size=8).map(b"".join)


@given(lines, lines)
def test_a_union_has_what_either_has_and_is_the_same_both_ways(one: bytes, other: bytes) -> None:
    def content(text: bytes) -> tuple[set[str], set[bytes]]:
        found = list(parse(text))
        return {p.record.id for p in found if p.record}, {p.raw for p in found if not p.record}

    both = united(one, other)
    (ids, raws), (other_ids, other_raws) = content(one), content(other)
    assert content(both) == (ids | other_ids, raws | other_raws)
    assert sorted(both.splitlines()) == sorted(united(other, one).splitlines())
    assert united(both) == both


def test_what_is_missing_of_a_file_is_said() -> None:
    assert missing(YEAR, WHOLE[: len(to_line(YEAR[0])) * 3]) == tuple(YEAR[3:])


def test_a_run_that_was_added_while_it_went_on_is_added_again() -> None:
    ended = record(outcome="passed")
    going = replace(ended, outcome=Outcome.UNFINISHED, finished=ended.started)
    assert missing([ended], to_line(going)) == (ended,)
    assert missing([going], to_line(ended)) == ()
    assert missing([going], to_line(going)) == ()
    for lines in ([going, ended], [ended, going]):
        content = b"".join(map(to_line, lines))
        assert read([("x", content)]).records == (ended,)
        assert united(content) == to_line(ended)


def test_cutting_down_drops_only_old_details() -> None:
    old, new = checked(record(0, of=40), {"a: b": "f", "a: c": "p"}), checked(record(39, of=40), {"a: b": "f"})
    after, dropped = cut_down(to_line(old) + to_line(new), days=30, now=NOW)
    first, second = read([("x", after)]).records
    assert dropped == 1
    assert second == new
    assert (first.outcome, first.blame, first.seconds, first.counts) == (
        old.outcome,
        old.blame,
        old.seconds,
        old.counts,
    )
    assert checks_in(first) == []
    assert [(n.checks, n.message) for n in first.notes] == [(("a: b",), "it is broken")]


def test_cutting_down_twice_is_as_once() -> None:
    content = b"".join(map(to_line, records(60, 4, 2, compacted=False))) + FOREIGN + b"\ntorn"
    once, dropped = cut_down(content, days=30, now=NOW)
    assert dropped
    assert cut_down(once, days=30, now=NOW) == (once, 0)
    assert len(once) < len(content) * 0.75


def test_cutting_down_keeps_what_it_cannot_read() -> None:
    after, _ = cut_down(WHOLE + FOREIGN + b"\ntorn", days=0, now=NOW + timedelta(days=1))
    assert after.endswith(FOREIGN + b"\ntorn\n")


def test_what_failed_reads_the_same_without_details() -> None:
    text = "test_dns\nE   AssertionError: no answer within 30 s\nmore\n" + "x" * 500
    full = checked(record(), {"network: test_dns": "f"}, text)
    (note,) = forget(full).notes
    assert telling(note.message, note.checks) == telling(text, ("network: test_dns",))


@given(st.text(max_size=600))
def test_the_telling_line_of_a_telling_line_is_itself(text: str) -> None:
    line = telling(text)
    assert telling(line) == line or line.startswith("E ")


def test_a_forgotten_record_survives_its_line() -> None:
    made: Record = forget(checked(replace(record(), waited=3.0), {"a: b": "q"}))
    assert from_line(to_line(made)) == made


def test_a_record_by_a_clock_that_was_not_set_stays_behind_the_one_before_it() -> None:
    early = {"started": "1970-01-01T00:00:09.000Z", "finished": "1970-01-01T00:05:09.000Z"}
    first, second, third = record(0, of=3), record(1, of=3, **early), record(2, of=3)
    assert once([first, second, third]) == (first, second, third)
    assert once([third, first, second]) == once(once([third, first, second])) == (first, second, third)
    assert once([second, first]) == (second, first)
