"""A machine's journal goes on where it was after its connection is lost, and says no line twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness import proc
from harness.cell.existing import Existing
from harness.cell.journal import Journal
from harness.cell.log_sources import LogLine
from harness.errors import BadInput
from harness.model import Machine, PlannedMachine
from harness.rundir import AttemptDir

MACHINE = Machine(PlannedMachine("w0", (), 0, 0, 0, ""), "10.0.0.1", 22, "me")


@pytest.fixture
def there(tmp_path: Path) -> Existing:
    files = AttemptDir(tmp_path)
    made = SimpleNamespace(
        files=files, file=lambda path, _: path, instances=lambda: {"w0": {}}, machine=lambda _: MACHINE
    )
    return cast(Existing, made)


def test_a_journal_goes_on_where_it_was(there: Existing, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    said = iter(
        (
            ["1700000000.000001 w0 systemd[1]: one", "1700000001.5 w0 sshd[2]: two"],
            ["1700000001.5 w0 sshd[2]: two", "1700000001.5 w0 sshd[2]: also then", "1700000002.0 w0 x[3]: three"],
        )
    )

    def stream(argv: Sequence[str]) -> Iterator[str]:
        asked.append(argv[-1])
        yield from next(said)

    monkeypatch.setattr(proc, "stream", stream)
    source, heard = Journal(there, "w0", 5), list[LogLine]()
    source.follow(heard.append)
    source.follow(heard.append)
    assert asked[0].endswith("--follow --lines 5")
    assert asked[1].endswith("--follow --no-tail --since @1700000001.5")
    assert [line.text for line in heard] == [
        "2023-11-14T22:13:20Z w0 systemd[1]: one",
        "2023-11-14T22:13:21Z w0 sshd[2]: two",
        "2023-11-14T22:13:21Z w0 sshd[2]: also then",
        "2023-11-14T22:13:22Z w0 x[3]: three",
    ]
    assert {line.source for line in heard} == {"w0 journal"}


def test_words_of_journalctl_itself_are_handed_on(there: Existing, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["-- Boot 1 --", "1700000000.0 w0 a[1]: one", "-- Boot 2 --", "1700000000.0 w0 a[1]: one"]
    monkeypatch.setattr(proc, "stream", lambda _: iter(lines))
    heard: list[LogLine] = []
    Journal(there, "w0", 5).follow(heard.append)
    assert [line.text for line in heard] == ["-- Boot 1 --", "2023-11-14T22:13:20Z w0 a[1]: one", "-- Boot 2 --"]


def test_without_the_key_it_is_said(there: Existing, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(path: Path, what: str) -> Path:
        raise BadInput(f"{what} {path} is not on this machine")

    monkeypatch.setattr(there, "file", no_file)
    with pytest.raises(BadInput, match=r"private key .* is not on this machine"):
        Journal(there, "w0", 5).follow(lambda _: None)


def test_a_machine_that_is_gone_says_nothing(there: Existing) -> None:
    Journal(there, "w9", 5).follow(lambda _: pytest.fail("there is nothing to be heard"))
