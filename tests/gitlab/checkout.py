"""A checkout of this project with a history of its own, and gitlab-ci-local to run its pipelines.

gitlab-ci-local reads and runs .gitlab-ci.yml as GitLab does, with differences that the tests know: it creates a
pipeline where `workflow:rules` would not, runs no after_script of what is cancelled, ignores `retry`, `timeout` and
`interruptible`, and starts a job's dependants only when all that run beside it have ended. All jobs share one folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.paths import cache_dir, project_dir

HERE = Path(__file__).parent
PROGRAM = HERE / "node_modules" / "gitlab-ci-local" / "dist" / "index.js"
NODE = Path(sys.executable).parent / "node"
PREPARE = "npm ci --prefix tests/gitlab"
SECONDS = 120.0
AUTHOR = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
ORIGIN = "https://gitlab.example.org/team/vmatrix.git"
REQUEST = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_IID": "7"}
NIGHTLY = {"CI_PIPELINE_SOURCE": "schedule", "MATRIX_SCHEDULE": "nightly"}
REAP = {"CI_PIPELINE_SOURCE": "schedule", "MATRIX_SCHEDULE": "reap"}
PUSH = {"CI_PIPELINE_SOURCE": "push"}
VARIABLES = ".gitlab-ci-local-variables.yml"
HISTORY = {"VMATRIX_REPORT_HISTORY": "file"}


class Reference(list[str]):
    """GitLab's `!reference [JOB, KEY]`."""


class _Reading(yaml.SafeLoader):
    """Reads GitLab's own tag."""


class _Writing(yaml.SafeDumper):
    """Writes it again."""


def _reference(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> Reference:
    return Reference(loader.construct_sequence(node))


_Reading.add_constructor("!reference", _reference)
_Writing.add_representer(Reference, lambda dumper, value: dumper.represent_sequence("!reference", value))


@dataclass(frozen=True)
class Ended:
    """A call that ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """Return everything that was printed."""
        return self.stdout + self.stderr


@dataclass(frozen=True)
class Checkout:
    """A checkout whose first commit is the project as it is now."""

    directory: Path

    @property
    def head(self) -> str:
        """Return the present commit."""
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        """Call git and return its output."""
        argv = ["git", "-C", str(self.directory), *AUTHOR, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True).stdout

    def commit(self, message: str) -> str:
        """Commit everything and return the new commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.head

    def request(self, **more: str) -> dict[str, str]:
        """Return the variables of a merge request's pipeline: what was committed last is the change."""
        return {**REQUEST, "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.git("rev-parse", "HEAD~1").strip(), **more}

    def only_cells(self) -> None:
        """Let the jobs that run tox end at once: linters and unit tests are not what a pipeline's test is about.

        To leave them out by naming the others is not possible: gitlab-ci-local looks for the names in the child, too.
        """
        file = self.directory / ".gitlab-ci.yml"
        content = yaml.load(file.read_text(encoding="utf-8"), _Reading)  # noqa: S506 - a SafeLoader
        content[".tox"] |= {"before_script": [], "script": ["true"]}
        content["variables"]["XDG_CACHE_HOME"] = str(cache_dir().parent)  # goes on to the child pipeline
        file.write_text(yaml.dump(content, Dumper=_Writing, sort_keys=False), encoding="utf-8")

    def two_cells(self) -> None:
        """Add a tier `two` of two cells with one machine each, which differ in kube-proxy's mode."""
        tiers = self.directory / "matrix" / "tiers.yml"
        content = yaml.safe_load(tiers.read_text(encoding="utf-8"))
        first = content["tiers"]["single"]["pinned"][0]
        content["tiers"]["two"] = {
            "label": "two cells",
            "pinned": [first | {"proxy": "nftables"}, first | {"proxy": "iptables"}],
            "suites": ["nodes"],
            "budget": {"cells": 2, "machines": 1, "minutes": 30},
        }
        tiers.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def call(self, *words: str, variables: Mapping[str, str], seconds: float = SECONDS) -> Ended:
        """Call gitlab-ci-local and wait for its end.

        Its output goes into files: it ends without waiting for a pipe to be read.
        """
        # The caches are this machine's: a pipeline that builds Kubernetes first would show nothing more.
        own = {"XDG_CACHE_HOME": str(cache_dir().parent), "CI_PROJECT_DIR": str(self.directory)}
        said = own | {n: value for n, value in variables.items() if n.startswith("CI_") or value.startswith("/")}
        # The others as the project's own, because gitlab-ci-local forgets a call's in child pipelines (no paths: it
        # takes them for file variables). No image: with one it takes the checkout to be elsewhere.
        others = {"MATRIX_IMAGE": ""} | {name: value for name, value in variables.items() if name not in said}
        (self.directory / VARIABLES).write_text(yaml.safe_dump(others), encoding="utf-8")
        argv = [str(NODE), str(PROGRAM), "--force-shell-executor", "--no-color", *words]
        argv += ["--ignore-predefined-vars", ",".join(name for name in said if name.startswith("CI_"))]
        if "CI_MERGE_REQUEST_IID" in said:
            argv += ["--unset-variable", "CI_COMMIT_BRANCH"]  # GitLab does not set it in these pipelines
        for name, value in said.items():
            argv += ["--variable", f"{name}={value}"]
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            with out.open("wb") as stdout, err.open("wb") as stderr:
                done = subprocess.run(
                    argv,
                    cwd=self.directory,
                    env=without_ci(os.environ) | {"XDG_CACHE_HOME": own["XDG_CACHE_HOME"]},
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    timeout=seconds,
                    check=False,
                )
            return Ended(done.returncode, out.read_text(errors="replace"), err.read_text(errors="replace"))

    def listed(self, variables: Mapping[str, str], *words: str) -> dict[str, dict[str, Any]]:
        """Return the jobs that a pipeline would have, by name, as far as gitlab-ci-local tells."""
        ended = self.call("--list-json", *words, variables=variables)
        assert ended.code == 0, ended.said
        jobs = json.loads(ended.stdout[ended.stdout.index("[\n") if "[\n" in ended.stdout else 0 :])
        return {job["name"]: job for job in jobs if job["when"] != "never"}

    def merged(self, variables: Mapping[str, str], *words: str) -> dict[str, Any]:
        """Return the pipeline with includes, inputs, extends and anchors resolved."""
        ended = self.call("--preview", *words, variables=variables)
        assert ended.code == 0, ended.said
        found: dict[str, Any] = yaml.safe_load(ended.stdout[ended.stdout.index("---\n") :])
        return found


def without_ci(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what a pipeline sets: these tests may be a job themselves."""
    return {k: v for k, v in environment.items() if not k.startswith(("CI", "GITLAB_", "MATRIX_", "VMATRIX_"))}


def make(directory: Path) -> Checkout:
    """Copy the project as it is, with what is not committed yet, and commit it.

    The environment of the tests is the jobs' too (ci/prepare uses .venv when it is there).
    """
    directory.mkdir()
    listed = subprocess.run(
        ["/usr/bin/git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=project_dir(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source, target = project_dir() / name, directory / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    made = Checkout(directory)
    made.git("init", "--quiet", "--initial-branch", "main")
    made.git("remote", "add", "origin", ORIGIN)
    (directory / ".venv").symlink_to(sys.prefix)
    (directory / ".git" / "info" / "exclude").write_text(f"{VARIABLES}\n.gitlab-ci-local/\n", encoding="utf-8")
    made.git("add", "--force", ".venv")
    made.commit("The project")
    made.git("update-ref", "refs/remotes/origin/main", "HEAD")
    made.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    return made


def flat(script: str | Sequence[Any] | None) -> list[str]:
    """Return a script's lines: GitLab takes lists within lists."""
    if script is None or isinstance(script, str):
        return [script] if script else []
    return [line for part in script for line in flat(part)]
