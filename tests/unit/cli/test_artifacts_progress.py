"""What a person sees of long builds where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from harness.artifacts.recipe import ArtifactPhase, Event, Ref, Whole, clock
from harness.cli.artifacts_progress import showing
from harness.providers.site import spoken

KUBELET = Ref("kubelet", "1.36.3")
ETCD = Ref("etcd", "3.6.8")
RUNC = Ref("runc", "1.5.2")


def said(*events: Event) -> list[str]:
    out = io.StringIO()
    with showing(Console(file=out, width=200)) as report:
        for event in events:
            report(event)
    return out.getvalue().splitlines()


def running(elapsed: float, expected: float = 100.0) -> Event:
    return Event(KUBELET, ArtifactPhase.RUNNING, "gomod", elapsed, expected)


def test_a_long_build_says_what_it_expects_then_where_it_is() -> None:
    done = Event(KUBELET, ArtifactPhase.DONE, "gomod", 65.0, 100.0)
    assert said(running(0), *(running(n) for n in range(1, 65)), done) == [
        "kubelet 1.36.3: gomod, about 1:40",
        "kubelet 1.36.3: 0:30 of about 1:40",
        "kubelet 1.36.3: 1:00 of about 1:40",
        "kubelet 1.36.3: done in 65.0 s",
    ]


def together(ref: Ref, now: float, expected: float, *under_way: Ref, done: bool = False) -> Event:
    """Return an event of work that is done together; each piece began at 0."""
    phase = ArtifactPhase.DONE if done else ArtifactPhase.RUNNING
    return Event(ref, phase, "gomod", now, 100.0, now, Whole(now, expected, under_way, (KUBELET, ETCD, RUNC)))


def test_what_is_made_together_has_one_line_and_one_estimate() -> None:
    both = (KUBELET, ETCD)
    assert said(
        together(KUBELET, 0, 150.0, KUBELET),
        together(ETCD, 0, 150.0, *both),
        *(together(both[n % 2], n, 150.0 + n, *both) for n in range(1, 40)),
        together(ETCD, 40, 190.0, KUBELET, done=True),
        *(together(KUBELET, n, 190.0, KUBELET, RUNC) for n in range(41, 62)),
    ) == [
        "to make, about 2:30 in all: kubelet 1.36.3, etcd 3.6.8, runc 1.5.2",
        "0:30 of about 3:00: kubelet 1.36.3, etcd 3.6.8",
        "etcd 3.6.8: done in 40.0 s",
        "1:00 of about 3:10: kubelet 1.36.3, runc 1.5.2",
    ]


def test_of_many_only_the_longest_are_named() -> None:
    parts = tuple(Ref(f"p{number}", "1") for number in range(9))
    assert (
        Whole(0.0, 60.0, (), parts).plan == "to make, about 1:00 in all: p0 1, p1 1, p2 1, p3 1, p4 1, p5 1 and 3 more"
    )


def test_a_run_says_the_same() -> None:
    lines: list[str] = []
    tell = spoken(lines.append)
    tell(together(KUBELET, 30, 150.0, KUBELET, ETCD))
    tell(together(KUBELET, 90, 150.0, done=True))
    tell(Event(ETCD, ArtifactPhase.WAITING, "gomod", 0, 9))
    tell(Event(RUNC, ArtifactPhase.CACHED, "gomod", 0, 0))
    assert lines == [
        "making kubelet 1.36.3, etcd 3.6.8: 0:30 of about 2:30",
        "kubelet@1.36.3: done (90 s)",
        "etcd@3.6.8: waiting for another process (0 s)",
    ]


def test_what_is_cached_is_not_worth_a_word() -> None:
    assert said(Event(KUBELET, ArtifactPhase.CACHED, "gomod", 0, 0)) == []


def test_waiting_for_another_process_is_said() -> None:
    assert said(Event(KUBELET, ArtifactPhase.WAITING, "gomod", 0, 9)) == ["kubelet 1.36.3: waiting for another process"]


def test_minutes_are_minutes() -> None:
    assert clock(296.4) == "4:56"
