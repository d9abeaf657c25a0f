"""Where an executor is, told now and then: the newest, only what is new, and again after the API had trouble."""

from __future__ import annotations

import json
import threading

import pytest

from harness.errors import InfraRetriable
from harness.operator.execute.progress import ANNOTATION, PlayProgress, progress_of

SECONDS = 60.0  # against hanging


class Heard:
    """What was written; the first `refusals` writes are refused."""

    def __init__(self, refusals: int = 0) -> None:
        self.values: list[dict[str, str]] = []
        self.refusals = refusals
        self.told = threading.Event()

    def write(self, value: str) -> None:
        """Take a value."""
        if self.refusals:
            self.refusals -= 1
            raise InfraRetriable("no API")
        self.values.append(json.loads(value))
        self.told.set()


def test_the_newest_is_told_once_and_what_was_over_before_is_not() -> None:
    heard = Heard()
    progress = PlayProgress(heard.write, every=0.001)
    progress.play, progress.task = "Etcd", "Start"
    progress.play, progress.task = "Nodes", "Join"
    progress.start()
    assert heard.told.wait(SECONDS)
    heard.told.clear()
    progress.task = "Wait"
    assert heard.told.wait(SECONDS)
    progress.stop()
    assert heard.values == [{"play": "Nodes", "task": "Join"}, {"play": "Nodes", "task": "Wait"}]


def test_nothing_is_told_before_the_first_play() -> None:
    heard = Heard()
    progress = PlayProgress(heard.write, every=0.001)
    progress.stop()
    progress._tell()
    assert heard.values == []


def test_what_the_api_did_not_take_is_told_again() -> None:
    heard = Heard(refusals=3)
    progress = PlayProgress(heard.write, every=0.001, play="Nodes")
    progress.start()
    assert heard.told.wait(SECONDS)
    progress.stop()
    assert heard.refusals == 0


@pytest.mark.parametrize(
    ("value", "found"),
    [('{"play": "a", "task": "b"}', ("a", "b")), ("{}", ("", "")), ("nonsense", ("", "")), ("[]", ("", ""))],
)
def test_an_annotation_is_read_whatever_it_is(value: str, found: tuple[str, str]) -> None:
    assert progress_of({"metadata": {"annotations": {ANNOTATION: value}}}) == found
    assert progress_of({"metadata": {}}) == ("", "")
