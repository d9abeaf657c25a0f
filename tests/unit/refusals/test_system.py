"""What the operating system refuses: the path and errno's words, and whose it is. As real commands where it matters."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import system
from harness.errors import EXIT_BAD_INPUT, EXIT_INFRA, EXIT_NOTHING_SELECTED
from harness.files import write_atomically, write_new
from harness.infra.host.layout import layout_of
from harness.paths import PROJECT
from tests.unit.refusals.called import SECONDS, VMATRIX, Refusal, Room

FULL = Path("/dev/full")


@contextmanager
def limited_files() -> Iterator[None]:
    """Let no file of this process grow, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def shell(room: Room, script: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a shell, as $V."""
    return subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=room.work,
        env={**os.environ, "V": str(VMATRIX), **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("exec $V version > /dev/full", EXIT_INFRA, "standard output: No space left on device"),
        ("exec $V version >&-", EXIT_BAD_INPUT, "standard output is closed"),
        ("$V version 2>&-", 0, ""),
        ("$V nope 2>&-", EXIT_BAD_INPUT, ""),
        ("exec $V status 2> /dev/full", EXIT_NOTHING_SELECTED, ""),
        ("exec $V nope 2> /dev/full", EXIT_BAD_INPUT, ""),
        (
            "touch vmatrix.yml && exec $V run --no-infra-up > /dev/full",
            EXIT_NOTHING_SELECTED,
            "standard output: No space left on device",
        ),
        ("touch vmatrix.yml && exec $V run --no-infra-up 2> /dev/full", EXIT_NOTHING_SELECTED, ""),
        (
            "mkdir gone && cd gone && rmdir ../gone && exec $V list",
            EXIT_BAD_INPUT,
            "the working directory does not exist",
        ),
    ],
)
def test_a_command_that_cannot_speak_or_stand_anywhere(room: Room, script: str, code: int, says: str) -> None:
    ended = shell(room, f"unset {PROJECT}; {script}")
    assert ended.returncode == code, ended
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "bug in vmatrix" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_a_reader_that_goes_away_is_no_failure_of_the_product(room: Room) -> None:
    ended = shell(room, "{ $V version; echo $? >&2; } | true")
    assert ended.stderr.splitlines()[-1] in ("141", "0"), ended  # 0: the reader was still there
    assert "Traceback" not in ended.stderr


BLOCKED = {
    "artifacts list": "cache",
    "image list": "cache",
    "infra down": "state",
    "artifacts prune": "cache",
}


@pytest.mark.parametrize("command", BLOCKED)
@pytest.mark.parametrize("place", ["HOME", "XDG"])
def test_a_place_that_is_a_file(room: Room, command: str, place: str) -> None:
    file = room.work / "file"
    file.touch()
    env = {f"XDG_{BLOCKED[command].upper()}_HOME": str(file)}
    if place == "HOME":
        env = {"HOME": str(file), "XDG_CACHE_HOME": "", "XDG_STATE_HOME": ""}
    room.refuses(Refusal(command, "Not a directory", "choose another place", env=env))


@pytest.mark.parametrize("command", ["artifacts list", "infra down", "status", "config"])
def test_a_user_without_a_home(room: Room, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def nobody(_: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.delenv("HOME")
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    if command == "config":
        assert room.call(command).code == 0
    else:
        room.refuses(Refusal(command, "has no home directory", "set HOME"))


def test_a_lock_that_is_a_folder(room: Room) -> None:
    lock = layout_of("default", "embedded").lock
    lock.mkdir(parents=True)
    room.refuses(Refusal("infra down", f"{lock}: Is a directory", "it is a folder"))


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/nope/x", "No such file or directory"),
        ("{WORK}", "Is a directory"),
        ("{WORK}/file/x", "Not a directory"),
        ("{WORK}/loop", "symbolic links"),
        ("{WORK}/" + "a" * 300, "name too long"),
    ],
)
@pytest.mark.parametrize("command", ["gitlab generate --output"])
def test_a_target_that_cannot_be_written(room: Room, command: str, target: str, says: str) -> None:
    (room.work / "file").touch()
    (room.work / "loop").symlink_to(room.work / "loop")
    env = {"CI_JOB_ID": "1", "CI_PROJECT_DIR": "{WORK}", "CI_PIPELINE_SOURCE": "web"}
    room.refuses(Refusal(f"{command} {target}", says, env=env, starts=("git",)))


def test_a_lock_on_a_full_disk_is_held_without_its_holders_name(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    assert room.call("infra down").code == 0


@pytest.mark.parametrize(
    "write",
    [
        lambda: write_atomically(Path("x"), "text"),
        lambda: write_new({Path("x"): ("text", 0o644)}),
    ],
)
def test_a_write_that_fails_names_its_file(room: Room, write: Callable[[], None]) -> None:
    with limited_files(), pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as failed:
        write()
    assert failed.value.filename == "x"
    assert list(room.work.iterdir()) == []


@pytest.mark.parametrize("code", sorted({*system.REFUSED, *system.EXHAUSTED}))
def test_every_error_has_its_words_and_its_blame(code: int) -> None:
    made = system.of(OSError(code, os.strerror(code), "/a/path"))
    assert made is not None
    assert made.summary == f"/a/path: {os.strerror(code)}"
    assert made.hint
    assert made.exit_code == (EXIT_INFRA if code in system.EXHAUSTED else EXIT_BAD_INPUT)


@pytest.mark.parametrize(
    "error", [OSError("a library's"), OSError(-2, "name"), TimeoutError(), OSError(errno.ENOMSG, "x")]
)
def test_what_is_no_refusal_of_the_system_stays_what_it_is(error: OSError) -> None:
    assert system.of(error) is None
