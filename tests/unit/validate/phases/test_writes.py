"""Only what the API has answered counts as acknowledged."""

from __future__ import annotations

import threading
from typing import Any

from harness.errors import InfraError
from harness.validate.phases.writes import Writer, written


class AcknowledgingApi:
    """An API that takes every second write; `enough` is set after the sixth try."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.tries = 0
        self.enough = threading.Event()

    def ensure(self, _: object, body: Any) -> Any:
        return body

    create_if_absent = ensure

    def merge(self, _: object, __: str, patch: Any, ___: str) -> None:
        self.tries += 1
        if self.tries >= 6:
            self.enough.set()
        if self.tries % 2:
            raise InfraError("the API does not answer")
        self.data.update(patch["data"])

    def get(self, *_: object) -> Any:
        return {"data": self.data}


def test_only_what_was_answered_is_acknowledged() -> None:
    api: Any = AcknowledgingApi()
    writer = Writer(api)
    writer.start()
    assert api.enough.wait(60)
    writer.stop()
    tries = api.tries
    assert writer.acknowledged == written(api)
    assert len(writer.acknowledged) == tries // 2
    writer.stop()


def test_nothing_is_written_after_the_end() -> None:
    api: Any = AcknowledgingApi()
    writer = Writer(api)
    writer.start()
    assert api.enough.wait(60)
    writer.stop()
    assert writer._thread is not None
    assert not writer._thread.is_alive()
