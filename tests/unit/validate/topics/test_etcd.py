"""Members of etcd that are unhealthy, wrong or do not agree are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.validate.facts.node import EtcdView, NodeFacts
from harness.validate.topics import etcd
from tests.unit.validate import guests
from tests.unit.validate.changes import Judge, finds, in_text, passes_a_well_guest_only, put
from tests.unit.validate.guests import Change


def views(seen: Mapping[str, NodeFacts]) -> dict[str, EtcdView]:
    return {name: facts.etcd for name, facts in seen.items() if facts.etcd is not None}


JUDGES: tuple[Judge, ...] = (
    lambda seen, wanted: etcd.unhealthy(views(seen), wanted),
    lambda seen, wanted: etcd.filling(views(seen), wanted),
    lambda seen, wanted: etcd.wrong_members(views(seen), wanted),
    lambda seen, wanted: etcd.disagreeing(views(seen), wanted),
    lambda seen, wanted: etcd.wrong_versions(views(seen), wanted),
)
FAULTS: list[tuple[Judge, Change]] = [
    (lambda s, e: etcd.unhealthy(views(s), e), put("etcd/health", {"status": 503, "body": '{"health":"false"}'})),
    (
        lambda s, e: etcd.unhealthy(views(s), e),
        put("etcd/alarms/body", '{"alarms":[{"memberID":"1","alarm":"NOSPACE"}]}'),
    ),
    (
        lambda s, e: etcd.filling(views(s), e),
        in_text("etcd/status/body", '"dbSize":"1667072"', '"dbSize":"1717986919"'),
    ),
    (lambda s, e: etcd.unhealthy(views(s), e), put("etcd", {"endpoint": "https://127.0.0.1:2379", "error": "no key"})),
    (
        lambda s, e: etcd.wrong_members(views(s), e),
        put("etcd/members/body", '{"members":[{"name":"cp-0"},{"name":"old"}]}'),
    ),
    (
        lambda s, e: etcd.wrong_members(views(s), e),
        put("etcd/members/body", '{"members":[{"name":"cp-0","isLearner":true}]}'),
    ),
    (lambda s, e: etcd.wrong_members(views(s), e), put("etcd/members", {"status": 0, "body": "refused"})),
    (lambda s, e: etcd.disagreeing(views(s), e), put("etcd/status/body", '{"version":"3.6.8","raftTerm":"2"}')),
    *(
        (lambda s, e: etcd.wrong_members(views(s), e), in_text("etcd/members/body", old, new))
        for old, new in (
            ('"name":"cp-0", ', ""),  # added and never started
            ('"clientURLs":["https://10.222.1.2:2379"]', '"clientURLs":[]'),
            ('"clientURLs"', '"isLearner":true, "clientURLs"'),
            ("https://10.222.1.2:2380", "https://10.222.1.9:2380"),
            ('"name":"cp-0"', '"name":"cp-1"'),
            ("]}]}", ']}, {"ID":"2", "name":"w-9", "peerURLs":["https://10.222.1.9:2380"], "clientURLs":["x"]}]}'),
            ("]}]}", ']}, {"ID":"2", "name":"cp-0", "peerURLs":["https://10.222.1.2:2380"], "clientURLs":["x"]}]}'),
        )
    ),
    (
        lambda s, e: etcd.disagreeing(views(s), e),
        in_text("etcd/status/body", '"leader":"12917209335202835459"', '"leader":"7"'),
    ),
    (
        lambda s, e: etcd.wrong_versions(views(s), e),
        put("etcd/status/body", '{"version":"3.5.24","leader":"1","raftTerm":"2"}'),
    ),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


@pytest.mark.parametrize(("version", "quota", "size", "found"), [
    ("3.6.8", 2147483648, 1717986919, "fills at most 80%"),
    ("3.6.8", 2147483648, 1717986918, ""),
    ("3.6.8", 8589934592, 2147483648, ""),
    ("3.6.5", 0, 1717986919, "fills at most 80%"),  # says nothing of its default
    ("3.6.5", 0, 1667072, ""),
    ("3.5.24", 0, 1667072, "does not say it"),
    ("3.6.8", -1, 9000000000, ""),  # has none
])  # fmt: skip
def test_a_file_that_soon_fills_its_quota_is_found(version: str, quota: int, size: int, found: str) -> None:
    one = replace(views(guests.facts())["cp-0"], version=version, quota=quota, size=size)
    seen = etcd.filling({"cp-0": one}, guests.expected())
    assert [found in f"{each}" for each in seen] == ([True] if found else []), seen


def test_members_of_two_clusters_do_not_agree() -> None:
    """Two machines of the group etcd, each well by itself, of which one began a cluster of its own."""
    wanted = guests.expected(groups=(("control_plane", "etcd"), ("node", "etcd")))
    one = views(guests.facts())["cp-0"]
    other = replace(one, cluster="1", members=one.members)
    assert [f.expected for f in etcd.disagreeing({"cp-0": one, "w-0": other}, wanted)] == [f"cluster {one.cluster!r}"]


@pytest.mark.parametrize("alarm", etcd.REMEDIES)
def test_an_alarm_comes_with_what_to_do(alarm: str) -> None:
    one = replace(views(guests.facts())["cp-0"], alarms=(f"{alarm} of 1",))
    assert etcd.REMEDIES[alarm] in etcd.unhealthy({"cp-0": one}, guests.expected())[0].seen


@pytest.mark.parametrize(("before", "after", "passes"), [(0, 1, True), (1, 1, False), (1, 0, False), (None, 1, False)])
def test_a_member_that_was_not_defragmented_is_found(before: int | None, after: int, passes: bool) -> None:
    one = views(guests.facts())["cp-0"]
    first, last = ({"cp-0": replace(one, defragmentations=count)} for count in (before, after))
    assert (etcd.not_defragmented(first, last, guests.expected()) == []) is passes
