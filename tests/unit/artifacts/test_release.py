"""Downloads from a release site: what is kept has been verified, and what could not be verified is not kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import release
from harness.artifacts.catalogue import Catalogue
from harness.artifacts.recipe import Ref, Source
from harness.artifacts.store import Store
from harness.errors import InfraError, InfraRetriable
from tests.unit.artifacts.conftest import Site, archive

PLAIN = "/v1.2.3/tool"


PAIR = "/pair-4.5.6.tgz"


TOOL = Ref("tool", "1.2.3")


@pytest.fixture
def store(tmp_path: Path, small: Catalogue, site: Site) -> Store:
    return Store(tmp_path, Source.RELEASE, small, {"http://site": site.url})


def nothing_kept(store: Store) -> bool:
    """Tell whether the cache holds neither a finished artifact nor a piece of one."""
    left = [path for path in store.root.rglob("*") if path.is_file() and ".logs" not in path.parts]
    return all(path.name.startswith(".lock-") for path in left) and not list(store.root.rglob(".tmp-*"))


def test_a_plain_file_is_kept_and_executable(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    path = store.obtain("tool", "1.2.3").file("tool")
    assert path.read_bytes() == b"program"
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_second_time_asks_nothing(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    first = store.obtain("tool", "1.2.3")
    asked = len(site.asked)
    assert store.obtain("tool", "1.2.3") == first
    assert len(site.asked) == asked


def test_only_named_members_are_taken_out_of_an_archive(store: Store, site: Site) -> None:
    site.offer(PAIR, archive({"./pair-4.5.6/bin/left": b"l", "../evil": b"e", "pair-4.5.6/bin/right": b"r", "x": b"x"}))
    found = store.obtain("pair", "4.5.6")
    assert {name: path.read_bytes() for name, path in found.files.items()} == {"left": b"l", "right": b"r"}
    assert not list(store.root.rglob("evil"))


def test_a_bare_digest_is_a_checksum_file_too(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    site.content[f"{PLAIN}.sha256"] = site.content[f"{PLAIN}.sha256"].split()[0]
    assert store.obtain("tool", "1.2.3").source == "release"


def wrong_checksum(site: Site) -> None:
    site.content[PLAIN] = b"another program"


def truncated(site: Site) -> None:
    site.announced[PLAIN] = 1000


def missing(site: Site) -> None:
    del site.content[PLAIN]


def missing_checksum(site: Site) -> None:
    del site.content[f"{PLAIN}.sha256"]


def checksum_of_others(site: Site) -> None:
    site.content[f"{PLAIN}.sha256"] = b"0" * 64 + b"  other\n"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (wrong_checksum, "wrong checksum"),
        (truncated, "was cut off"),
        (missing, "answered 404"),
        (missing_checksum, "answered 404"),
        (checksum_of_others, "lists no SHA-256 of tool"),
    ],
)
def test_a_fault_is_one_clear_error_and_leaves_nothing(
    store: Store, site: Site, fault: Callable[[Site], None], message: str
) -> None:
    site.offer(PLAIN, b"program")
    fault(site)
    with pytest.raises(InfraError, match=message) as raised:
        store.obtain("tool", "1.2.3")
    assert site.url in raised.value.summary
    assert nothing_kept(store)
    assert store.cached(TOOL) is None


def test_a_fault_can_be_mended_by_trying_again(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    site.announced[PLAIN] = 1000
    with pytest.raises(InfraRetriable):
        store.obtain("tool", "1.2.3")
    site.announced.clear()
    assert store.obtain("tool", "1.2.3").file("tool").read_bytes() == b"program"


def test_an_archive_without_the_member_is_refused(store: Store, site: Site) -> None:
    site.offer(PAIR, archive({"pair-4.5.6/bin/left": b"l"}))
    with pytest.raises(InfraError, match=r"does not contain pair-4\.5\.6/bin/right"):
        store.obtain("pair", "4.5.6")
    assert nothing_kept(store)


def test_what_is_no_archive_is_refused(store: Store, site: Site) -> None:
    site.offer(PAIR, b"<html>please log in</html>" * 100)
    with pytest.raises(InfraError, match="not a readable archive"):
        store.obtain("pair", "4.5.6")
    assert nothing_kept(store)


def test_a_site_that_does_not_answer_is_named(tmp_path: Path, small: Catalogue) -> None:
    store = Store(tmp_path, Source.RELEASE, small, {"http://site": "http://127.0.0.1:9"})
    with pytest.raises(InfraRetriable, match=r"http://127\.0\.0\.1:9/v1\.2\.3/tool\.sha256 cannot be reached"):
        store.obtain("tool", "1.2.3")


def test_reachability_is_asked_once(site: Site) -> None:
    url = f"{site.url}/unused"  # HEAD is not served: 501, so this site counts as not reachable
    assert release.reachable(url) is False
    assert release.reachable(url) is False
    assert release.reachable.cache_info().hits >= 1
