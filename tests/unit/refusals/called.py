"""A command called as a user does, and what it did: its end, its words, and what it left, started or became."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

import harness.cli
from harness.paths import PRODUCT, PROJECT

SECONDS = 300  # against hanging
VMATRIX = Path(sys.executable).parent / "vmatrix"


@dataclass(frozen=True)
class Refusal:
    """One bad input, and what has to be said of it.

    words: of the command, with {WORK} for the working directory.  code: its exit code.
    says, hint: parts of the message and of the hint.
    files: what lies in the working directory.  env: variables besides.
    starts: the programs that may be started, such as git.
    """

    words: str
    says: str = ""
    hint: str = ""
    code: int = 2
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the id of the test."""
        return " ".join((*self.words.split(), *(f"{k}={v}"[:40] for k, v in self.env.items())))[:100]


@dataclass(frozen=True)
class Ended:
    """A command that ended, and which programs it had started."""

    code: int
    stdout: str
    stderr: str
    started: tuple[str, ...] = ()


class Became(AssertionError):
    """The command accepted its input: it became another program."""


@dataclass
class Room:
    """An empty place to call commands in: a working directory, and folders for everything that they keep."""

    root: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    started: list[str] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """Return the working directory."""
        return self.root / "work"

    def enter(self) -> None:
        """Go there; nothing of this host's settings counts."""
        for name in [n for n in os.environ if n.startswith(("VMATRIX_", "MATRIX_", "CI")) and n != PROJECT]:
            self.monkeypatch.delenv(name)
        for folder in ("work", "home", "tmp", "cache", "state"):
            (self.root / folder).mkdir()
        self.monkeypatch.chdir(self.work)
        for name, folder in (
            ("HOME", "home"),
            ("TMPDIR", "tmp"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_STATE_HOME", "state"),
        ):
            self.monkeypatch.setenv(name, str(self.root / folder))
        self.monkeypatch.setenv("COLUMNS", "200")
        self.monkeypatch.setattr(os, "execv", _becoming)
        self.monkeypatch.setattr(os, "execvp", _becoming)
        plain = subprocess.Popen

        def starting(words: Any, *arguments: Any, **options: Any) -> Any:
            self.started.append(Path(str(words if isinstance(words, str) else words[0])).name)
            return plain(words, *arguments, **options)

        self.monkeypatch.setattr(subprocess, "Popen", starting)

    def put(self, files: Mapping[str, str]) -> None:
        """Write files into the working directory."""
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def seen(self) -> list[tuple[str, float]]:
        """Return everything that lies anywhere in the room, and when files were written."""
        return sorted((str(p), p.lstat().st_mtime if p.is_file() else 0.0) for p in self.root.rglob("*"))

    def call(self, words: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run the command's own entry point in this process."""
        self.started.clear()
        split = [
            word.replace("{WORK}", str(self.work)).replace("_BLANK_", " ").replace("_EMPTY_", "")
            for word in words.split()
        ]
        with self.monkeypatch.context() as patched:
            for name, value in (env or {}).items():
                patched.setenv(name, value.replace("{WORK}", str(self.work)))
            patched.setattr(sys, "argv", ["vmatrix", *split])
            patched.delenv(PRODUCT, raising=False)
            with pytest.raises(SystemExit) as ended:
                harness.cli.main()
        said = self.capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err, tuple(self.started))

    def refuses(self, case: Refusal) -> Ended:
        """Hold a command to one message with a hint, its exit code, nothing written and nothing started."""
        self.put(case.files)
        before = self.seen()
        ended = self.call(case.words, case.env)
        assert ended.code == case.code, ended
        assert "Traceback" not in ended.stderr + ended.stdout, ended
        assert "bug in vmatrix" not in ended.stderr, ended
        usage = "Usage: vmatrix" in ended.stderr
        if not usage and "doctor" not in case.words.split()[0]:
            assert ended.stderr.count("error (") == 1, ended
            assert ended.stderr.count("hint: ") >= 1, ended
        message, _, advice = (ended.stderr + (ended.stdout if "doctor" in case.words else "")).partition("hint: ")
        flat = " ".join(message.split())
        assert case.says in flat, ended
        assert case.hint in " ".join(advice.split()), ended
        assert set(ended.started) <= set(case.starts), ended
        assert self.seen() == before, ended
        return ended


def _becoming(program: str, words: list[str]) -> None:
    raise Became(" ".join(words))


def prepared() -> Callable[..., Any]:
    """Return the command, whose options are read from the code once: that takes longer than a refusal."""
    command = typer.main.get_command(harness.cli.app)

    def call(**words: Any) -> Any:
        return command(**words)

    return call


def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Room]:
    """Yield an empty room."""
    made = Room(tmp_path, monkeypatch, capsys)
    made.enter()
    yield made
