"""The history in a generic package, over real HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from harness.errors import InfraError
from harness.history import package
from harness.history.lines import read
from harness.history.package import PackageStore, unpacked
from harness.history.record import to_line
from harness.until import TimedOut
from tests.unit.history.make import checked, record
from tests.unit.history.registry import PROJECT, TOKEN, Registry, serving
from tests.unit.history.synthetic import NOW

YEAR = [checked(record(night, of=80), {"a: b": "p"}) for night in range(80)]
NAME = "vmatrix-history"


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that has nothing, and serves."""
    with serving(Registry()) as found:
        yield found


@pytest.fixture
def store(registry: Registry) -> PackageStore:
    """A package of it that is not there yet."""
    return PackageStore(registry.api, PROJECT, NAME, "JOB-TOKEN", TOKEN)


def test_a_package_that_is_not_there_is_an_empty_history(store: PackageStore) -> None:
    assert store.load().records == ()


def test_what_was_added_is_there(store: PackageStore, registry: Registry) -> None:
    assert store.add(YEAR[:3]) == 3
    assert store.add(YEAR[:5]) == 2
    assert store.load().records == tuple(YEAR[:5])
    files = len(registry.files)
    assert store.add(YEAR[:5]) == 0
    assert len(registry.files) == files


def test_the_files_that_were_written_last_are_the_recent_ones(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "RECENT_FILES", 2)
    for night in (0, 40, 79):
        store.add(YEAR[night : night + 1])
    assert [r.id for r in read([("", store.recent())]).records] == [YEAR[40].id, YEAR[79].id]


def test_pipelines_that_write_at_once_lose_nothing(store: PackageStore) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(store.add, [YEAR[n::6] for n in range(6)]))
    assert store.load().records == tuple(YEAR)


def test_more_files_than_a_page_are_all_read(store: PackageStore, registry: Registry) -> None:
    many = [record(0, f"cell-{number}") for number in range(230)]
    for one in many:
        registry.put(NAME, "2026.11", f"{one.cell}.jsonl.gz", gzip.compress(to_line(one)))
    assert len(store.load().records) == 230


def test_other_packages_and_foreign_files_are_no_records(store: PackageStore, registry: Registry) -> None:
    registry.put(f"{NAME}-of-another", "2026.11", "x.jsonl.gz", gzip.compress(to_line(YEAR[0])))
    registry.put(NAME, "2026.11", "readme.txt", b"hello\n")
    registry.put(NAME, "2026.11", "broken.jsonl.gz", gzip.compress(b"".join(map(to_line, YEAR[:4])))[:-40])
    registry.put(NAME, "2026.11", "liar.jsonl.gz", b"not gzip at all")
    found = store.load()
    assert {r.id for r in found.records} < {r.id for r in YEAR[:4]}
    assert {s.source for s in found.skipped} >= {"2026.11/readme.txt", "2026.11/liar.jsonl.gz"}


def test_old_months_become_one_file_without_details(store: PackageStore, registry: Registry) -> None:
    for night in range(0, 80, 10):
        store.add(YEAR[night : night + 10])
    assert store.compact(days=30, now=NOW) > 0
    found = store.load().records
    assert [r.id for r in found] == [r.id for r in YEAR]
    months = [name.partition("/")[0] for name in registry.names()]
    assert months.count("2026.09") == 1
    assert months.count("2026.11") > 1
    assert all(r.forgotten == (r.started < "2026-10-01") for r in found)
    assert store.compact(days=30, now=NOW) == 0


def test_two_compactions_at_once_lose_nothing(store: PackageStore) -> None:
    for night in range(0, 80, 10):
        store.add(YEAR[night : night + 10])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda days: store.compact(days=days, now=NOW), [20, 25]))
    assert [r.id for r in store.load().records] == [r.id for r in YEAR]


def test_a_compaction_that_cannot_be_read_back_deletes_nothing(
    store: PackageStore, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(YEAR[:5])
    store.add(YEAR[5:10])
    put = registry.put
    monkeypatch.setattr(registry, "put", lambda n, v, f, content: put(n, v, f, content[: len(content) // 2]))
    with pytest.raises(InfraError, match="is not what was written"):
        store.compact(days=10, now=NOW)
    assert not any(r.startswith("DELETE") for r in registry.requests)
    assert {r.id for r in store.load().records} >= {r.id for r in YEAR[:10]}


def test_a_busy_gitlab_is_asked_again(store: PackageStore, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.busy = 1
    assert store.add(YEAR[:1]) == 1
    monkeypatch.setattr(package, "RETRY_SECONDS", 0.0)
    registry.busy = 99
    with pytest.raises(TimedOut, match="HTTP 503") as caught:
        store.load()
    assert "up and reachable" in caught.value.hint


def test_a_gitlab_that_never_answers_is_given_up_within_a_minute() -> None:
    assert max(package.HTTP_SECONDS, package.WHOLE_SECONDS, package.RETRY_SECONDS) < 60


def test_a_token_that_does_not_do_is_said(store: PackageStore) -> None:
    with pytest.raises(InfraError, match="HTTP 401") as caught:
        replace(store, token="wrong-token-value").load()
    assert "token" in caught.value.hint
    assert "wrong-token-value" not in f"{caught.value.summary}{caught.value.detail}{store!r}"


def test_an_answer_that_is_no_list_is_said(store: PackageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackageStore, "_call", lambda *_, **__: b"<html>sign in</html>")
    with pytest.raises(InfraError, match="did not answer with a list"):
        store.load()


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_of_a_broken_archive_the_beginning_is_read(cut: int) -> None:
    whole = b"".join(map(to_line, YEAR[:20]))
    packed = gzip.compress(whole)
    assert whole.startswith(unpacked(packed[: len(packed) - cut])[:-1] or b"") or cut == 0
    assert unpacked(packed) == whole
