"""What a person sees of long builds where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from harness.artifacts.recipe import ArtifactPhase, Event, Ref
from harness.cli.artifacts_progress import clock, showing

KUBELET = Ref("kubelet", "1.36.3")


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


def test_what_is_cached_is_not_worth_a_word() -> None:
    assert said(Event(KUBELET, ArtifactPhase.CACHED, "gomod", 0, 0)) == []


def test_waiting_for_another_process_is_said() -> None:
    assert said(Event(KUBELET, ArtifactPhase.WAITING, "gomod", 0, 9)) == ["kubelet 1.36.3: waiting for another process"]


def test_minutes_are_minutes() -> None:
    assert clock(296.4) == "4:56"
