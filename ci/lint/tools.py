"""The linters: what each is called with, and how its output is read."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.lint import read
from ci.lint.issue import Issue
from ci.nightly import TABLE as NIGHTLY
from harness.proc import pasteable, run

SECONDS = 900.0  # one tool over the whole checkout
Reader = Callable[[str, str], Iterator[Issue]]
PLAYBOOKS = Path("playbooks")
SITE = Path("mkdocs.yml")
SYNTAX_INVENTORY = Path("tests/unit/playbooks/inventories/cp1-w1.yml")
PIPELINE = Path(".gitlab-ci.yml")
TEMPLATES = (Path("templates/vmatrix.yml"), Path("harness/gitlab/jobs.yml"))  # files with inputs
SHEBANGS = ("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash", "#!/usr/bin/env sh", "# shellcheck shell=")
HEAD_LINES = 5  # within which a sourced script says which shell it is for


@dataclass(frozen=True)
class Tool:
    """A linter.

    argv: its call, computed when it is run.  read: its output to findings.
    home: the file that a failure without a finding is shown at.  stderr: whether findings are on stderr.
    """

    name: str
    argv: Callable[[], Sequence[str | Path]]
    read: Reader
    home: str
    stderr: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a linter said: its call, its findings, and its whole output."""

    tool: str
    call: str
    issues: tuple[Issue, ...]
    output: str
    seconds: float


def tracked(*patterns: str) -> list[Path]:
    """Return the project's files that git knows or would add, and that exist."""
    listed = run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns], timeout=60
    ).stdout
    return sorted({path for name in listed.split("\0") if name and (path := Path(name)).is_file()})


def shell_scripts() -> list[Path]:
    """Return the project's shell scripts, told by what they say of themselves."""
    return [path for path in tracked() if path.suffix in ("", ".sh") and _is_shell(path)]


def _is_shell(path: Path) -> bool:
    with path.open("rb") as file:
        head = [file.readline(200).decode(errors="replace") for _ in range(HEAD_LINES)]
    return head[0].startswith(SHEBANGS[:-1]) or any(line.startswith(SHEBANGS[-1]) for line in head)


def playbooks() -> list[Path]:
    """Return every playbook."""
    return sorted(path for path in PLAYBOOKS.glob("*.yml") if path.name not in {"galaxy.yml", "requirements.yml"})


def pipelines(scratch: Path) -> list[Path]:
    """Return the files of the pipelines; those with inputs without their head, which no schema of GitLab's covers."""
    bodies = []
    for template in TEMPLATES:
        body = scratch / template.name
        body.write_text(template.read_text(encoding="utf-8").partition("\n---\n")[2], encoding="utf-8")
        bodies.append(body)
    return [PIPELINE, *bodies]


def tools(scratch: Path) -> dict[str, Tool]:
    """Return all linters by name.

    Args:
        scratch: a folder for files that only linters read.
    """
    schema = ["check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", "-o", "json"]
    ansible = f"ansible-lint --offline --profile production -f codeclimate {PLAYBOOKS}".split()
    syntax = f"ansible-playbook --syntax-check -i {SYNTAX_INVENTORY}".split()
    found = (
        Tool("ruff", lambda: ["ruff", "check", "--output-format", "gitlab", "."], read.code_climate, "pyproject.toml"),
        Tool(
            "ruff-format",
            lambda: ["ruff", "format", "--check", "--output-format", "gitlab", "."],
            read.code_climate,
            "pyproject.toml",
        ),
        Tool("import-linter", lambda: ["lint-imports"], read.at_lines, "pyproject.toml"),
        Tool("mypy", lambda: ["mypy", "-O", "json"], read.mypy, "pyproject.toml"),
        Tool("yamllint", lambda: ["yamllint", "--strict", "-f", "parsable", "."], read.yamllint, ".yamllint"),
        Tool("ansible-lint", lambda: ansible, read.code_climate, ".ansible-lint"),
        Tool("ansible-syntax", lambda: [*syntax, *playbooks()], read.ansible_syntax, str(PLAYBOOKS), stderr=True),
        Tool(
            "shellcheck", lambda: ["shellcheck", "-x", "-f", "json1", *shell_scripts()], read.shellcheck, "ci/prepare"
        ),
        Tool("plan", lambda: ["vmatrix", "plan", "--check"], read.at_lines, "matrix/plan.lock.yml", stderr=True),
        Tool(
            "site",
            lambda: [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", scratch / "site"],
            read.mkdocs,
            str(SITE),
            stderr=True,
        ),
        Tool("nightly", lambda: [sys.executable, "-m", "ci.nightly", "check"], read.code_climate, str(NIGHTLY)),
        Tool("gitlab-schema", lambda: [*schema, *pipelines(scratch)], read.schema, str(PIPELINE)),
        *map(_scripts, (PIPELINE, *TEMPLATES)),
    )
    return {tool.name: tool for tool in found}


def _scripts(file: Path) -> Tool:
    """Return shellcheck for the scripts in a pipeline's jobs."""
    argv = f"gitlab-ci-verify --no-lint-api -f gitlab --gitlab-ci-file {file}".split()
    return Tool(f"scripts of {file.name}", lambda: argv, read.code_climate, str(file))


def check(tool: Tool) -> Verdict:
    """Run a linter. One that fails and finds nothing is a finding itself: it cannot have looked."""
    argv = list(tool.argv())
    with scratch_folder() as folder:  # some leave temporary files behind
        words = [shutil.which(str(argv[0])) or argv[0], *argv[1:]]
        done = run(words, timeout=SECONDS, check=False, env={"TMPDIR": folder})
    text = done.stderr if tool.stderr else done.stdout
    try:
        issues = tuple(tool.read(tool.name, text))
    except (ValueError, KeyError, TypeError) as error:
        issues = (Issue(tool.name, "unreadable", tool.home, 1, f"its output cannot be read: {error}", "blocker"),)
    if done.returncode != 0 and not issues:
        last = next(iter(reversed((done.stderr.strip() or done.stdout.strip()).splitlines())), "no output")
        issues = (Issue(tool.name, "failed", tool.home, 1, f"ended with {done.returncode}: {last}", "blocker"),)
    return Verdict(tool.name, pasteable(argv), issues, f"{done.stdout}{done.stderr}".strip(), done.seconds)


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that goes with its context."""
    return tempfile.TemporaryDirectory(prefix="vmatrix-lint-")
