"""A result file decides whose fault a failure is; one that is wrong is itself said."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cell.product.command_end import CommandEnd, verdict
from harness.cell.product.command_result import LARGEST, CommandResult, read_result
from harness.errors import BadInput, InfraError, InfraRetriable, ProductError
from harness.proc import Completed

MACHINES = ("cp-0", "w-0")


def ended(status: int | None, said: str = "", task: str = "") -> CommandEnd:
    """Return how a program ended; None when its time was up."""
    done = Completed(("run.sh",), status, said, "", 1.0) if status is not None else None
    return CommandEnd("run.sh", done, said, task, Path("deploy.log"), MACHINES, 1800.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the result is."""
    return tmp_path / "result.json"


def write(file: Path, **said: Any) -> None:
    """Write a result."""
    file.write_text(json.dumps(said), encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        ({}, ProductError, 1),
        ({"blame": "product"}, ProductError, 1),
        ({"blame": "user"}, BadInput, 2),
        ({"blame": "infra"}, InfraError, 3),
        ({"blame": "infra", "retry": True}, InfraRetriable, 75),
    ],
)
def test_the_program_says_who_is_to_blame(said: dict[str, Any], kind: type, code: int, file: Path) -> None:
    write(file, **said, summary="no quota", hint="ask for more", machines=["w-0"], task="create")
    error, machines = verdict(ended(4), file)
    assert type(error) is kind
    assert error is not None
    assert (error.exit_code, error.hint, machines) == (code, "ask for more", ("w-0",))
    assert error.summary == "run.sh ended with status 4 in task [create] on w-0: no quota"


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[4] / "docs" / "command.md").read_text(encoding="utf-8")
    table = page.split("## The result file")[1].split("```")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(CommandResult.model_fields)


def test_without_a_result_the_output_says_why(file: Path) -> None:
    error, machines = verdict(ended(1, "one\n\x1b[31mError: the API is away\x1b[0m\nbye\n", "join"), file)
    assert isinstance(error, ProductError)
    assert error.summary == "run.sh ended with status 1 in task [join]: Error: the API is away"
    assert error.detail == "one\nError: the API is away\nbye"
    assert machines == ()


def test_a_line_that_only_names_a_task_is_not_why(file: Path) -> None:
    error, _ = verdict(ended(1, "started\nTASK [failed machines]\n", "failed machines"), file)
    assert str(error) == "run.sh ended with status 1 in task [failed machines]: started"


def test_time_that_was_up_is_said_with_the_task(file: Path) -> None:
    assert str(verdict(ended(None, "", "join"), file)[0]) == "run.sh did not end within 1800 s in task [join]"
    write(file, blame="infra", summary="the image does not come")
    error, _ = verdict(ended(None), file)
    assert isinstance(error, InfraError)


def test_a_program_that_was_killed_says_nothing_of_the_product(file: Path) -> None:
    error, _ = verdict(ended(-9), file)
    assert isinstance(error, InfraRetriable)
    assert "was killed by SIGKILL" in error.summary
    assert type(verdict(ended(-11), file)[0]) is ProductError


def test_a_success_needs_no_result(file: Path) -> None:
    assert verdict(ended(0), file) == (None, ())
    write(file, summary="3 machines")
    assert verdict(ended(0), file) == (None, ())


def test_a_success_that_blames_somebody_contradicts_itself(file: Path) -> None:
    write(file, blame="infra", summary="no quota")
    error, _ = verdict(ended(0), file)
    assert isinstance(error, ProductError)
    assert error.summary == "run.sh succeeded, but its result file blames infra: no quota"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "result.json: empty"),
        ('{"blame":\n "infra"', "result.json:2: not JSON: "),
        ('{\n"blame": "me"}', "result.json:2: blame: Input should be 'product', 'user' or 'infra', got 'me'"),
        ('{\n"blam": "infra"}', "result.json:2: blam: unknown key; did you mean blame?"),
        ('{"machines":\n ["w-7"]}', "result.json:2: machines[0]: unknown machine 'w-7'; "),
        ('{"machines": "w-0"}', "result.json:1: machines: expected a list, got 'w-0'"),
        ('{"retry": true}', "result.json:1: retry: only a failure of the infrastructure can be retried"),
        ('{"summary": 7}', "result.json:1: summary: expected a string"),
        ("[]", "expected a mapping"),
        ('{"summary": "' + "x" * LARGEST + '"}', f"larger than {LARGEST} bytes"),
        ("[" * 100_000, "result.json"),
    ],
)
@pytest.mark.parametrize("status", [0, 5, None])
def test_a_result_file_that_is_wrong_is_said(text: str, message: str, status: int | None, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    error, machines = verdict(ended(status, task="join"), file)
    assert isinstance(error, ProductError)
    assert message in error.summary
    how = {0: "succeeded", 5: "ended with status 5 in task [join]", None: "did not end within 1800 s in task [join]"}
    assert error.summary.startswith(f"run.sh {how[status]}, and its result file is wrong: ")
    assert file in error.paths
    assert machines == ()


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling", "bytes"])
def test_what_is_no_text_is_no_result(kind: str, file: Path) -> None:
    make: dict[str, Callable[[], object]] = {
        "folder": file.mkdir,
        "pipe": lambda: os.mkfifo(file),
        "dangling": lambda: file.symlink_to("nowhere"),
        "bytes": lambda: file.write_bytes(b'{"summary": "\xff"}'),
    }
    make[kind]()
    _, wrong = read_result(file, MACHINES)
    assert len(wrong) == 1


def test_characters_beyond_the_first_plane_are_read(file: Path) -> None:
    write(file, summary="\U0001f525 all is on fire")
    assert read_result(file, MACHINES)[0].summary == "\U0001f525 all is on fire"
