"""What is read in a program's output."""

from __future__ import annotations

import pytest

from harness.cell.product.command_output import ended_with, error_line, last_lines, task_in


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("TASK [join w-0]", "join w-0"),
        ("TASK [join w-0] ***********", "join w-0"),
        ("\x1b[1mTASK [join]\x1b[0m", "join"),
        ("  TASK [join]", None),
        ("TASK []", None),
        ("TASK [ ]", None),
        ("task [join]", None),
        ("", None),
    ],
)
def test_a_line_may_name_the_task(line: str, task: str | None) -> None:
    assert task_in(line) == task


def test_the_line_that_says_most_is_the_last_one_about_an_error() -> None:
    assert error_line("error: a\nfatal: b\nclean-up\n") == "fatal: b"
    assert error_line("one\ntwo\n\n") == "two"
    assert error_line("") == ""
    assert len(error_line("error " + "x" * 5000)) == 400


def test_of_much_output_the_end_is_kept() -> None:
    assert last_lines("\n".join(map(str, range(100)))).splitlines() == [str(n) for n in range(60, 100)]


def test_how_it_ended() -> None:
    assert (ended_with(3), ended_with(-15), ended_with(-63)) == (
        "ended with status 3",
        "was killed by SIGTERM",
        "was killed by signal 63",
    )
