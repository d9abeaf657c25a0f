"""The history on a branch of the project's own repository: a file for each month, pushed as fast-forwards only.

Two pipelines may push at once: whoever is second fetches again, adds its records to what is there now, and pushes
again. So nothing is ever overwritten, and no lock is needed. The checkout that the job runs in is not touched.
"""

from __future__ import annotations

import base64
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from harness import proc
from harness.errors import InfraError
from harness.history.file import FileStore, content
from harness.history.lines import History, read
from harness.history.record import Record
from harness.history.scrub import scrubber
from harness.proc import CommandFailed, Completed
from harness.until import Deadline, NotYet, until

GIT_SECONDS = 120.0
PUSH_SECONDS = 300.0  # for all attempts together: sixty jobs of a pipeline may end at once
FOLDER = "history"
NO_BRANCH = 2  # what `git ls-remote --exit-code` says
REMOTE = "store"
TRY_AGAIN = ("cannot lock ref", "failed to update ref", "incorrect old value", "failed to lock")
HINT = (
    "the token needs to be allowed to push to the branch: in a job, allow job tokens to push (Settings > CI/CD > "
    "Job token permissions), or set MATRIX_HISTORY_TOKEN to a project access token with write_repository"
)


@dataclass(frozen=True)
class BranchStore:
    """A branch that holds nothing but histories.

    url: of the repository.  token: of an account that may push; "" when the URL or git's own configuration has one.
    """

    url: str
    branch: str
    token: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """Return where the history is, for people."""
        return f"branch {self.branch}"

    def load(self) -> History:
        """Return the history; an empty one without the branch.

        Raises:
            InfraError: the repository cannot be read.
        """
        with self._repository() as git:
            return read([(file.name, content(file)) for file in git.fetched()])

    def add(self, records: Iterable[Record]) -> int:
        """Add those records that the branch does not have, and return their number.

        Raises:
            InfraError: the repository cannot be read or pushed to.  TimedOut: others pushed all the time.
        """
        months: dict[str, list[Record]] = {}
        for record in records:
            months.setdefault(record.started[:7], []).append(record)

        def change(folder: Path) -> int:
            return sum(FileStore(folder / f"{month}.jsonl").add(found) for month, found in months.items())

        return self._change(change, lambda count: f"Add {count} cell runs") if months else 0

    def compact(self, *, days: float, now: datetime) -> int:
        """Drop the details of records older than so many days, and return of how many; raises what `add` does."""

        def change(folder: Path) -> int:
            return sum(FileStore(file).compact(days=days, now=now) for file in sorted(folder.glob("*.jsonl")))

        return self._change(change, lambda count: f"Drop the details of {count} cell runs")

    def _change(self, change: Callable[[Path], int], message: Callable[[int], str]) -> int:
        """Make a change on top of what is on the branch now, until it could be pushed."""

        def attempt() -> int | NotYet:
            with self._repository() as git:
                git.fetched()
                (git.folder / FOLDER).mkdir(exist_ok=True)
                count = change(git.folder / FOLDER)
                if not count:
                    return 0
                git.commit(message(count))
                refused = git.pushed()
                return count if not refused else NotYet(refused)

        return until(
            attempt,
            deadline=Deadline.after(PUSH_SECONDS),
            what=f"{self.name} takes what is pushed",
            interval=random.uniform(0.1, 0.9),  # noqa: S311 - so that those who collide do not do so again
        )

    @contextmanager
    def _repository(self) -> Iterator[_Git]:
        with tempfile.TemporaryDirectory(prefix="vmatrix-history-") as folder:
            git = _Git(Path(folder), self)
            git.run("init", "--quiet")
            yield git


@dataclass(frozen=True)
class _Git:
    """A repository that lives as long as one attempt."""

    folder: Path
    store: BranchStore

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.store.branch}"

    def fetched(self) -> list[Path]:
        """Check out what is on the branch now, and return its files."""
        found = self.run("ls-remote", "--exit-code", REMOTE, self.ref, good=(0, NO_BRANCH))
        if found.returncode == 0:
            self.run("fetch", "--quiet", "--depth=1", "--no-tags", REMOTE, self.ref)
            self.run("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
        return sorted((self.folder / FOLDER).glob("*.jsonl"))

    def commit(self, message: str) -> None:
        """Commit the files of the history and nothing else."""
        self.run("add", "--", f"{FOLDER}/*.jsonl")
        self.run("commit", "--quiet", "--no-verify", "-m", message)

    def pushed(self) -> str:
        """Push; return why the branch did not take it when that may be different the next time, else an empty text."""
        done = self.run("push", "--porcelain", REMOTE, f"HEAD:{self.ref}", good=(0, 1))
        if done.returncode == 0:
            return ""
        said = next((line for line in done.stdout.splitlines() if line.startswith("!")), "")
        if "[rejected]" in said or any(words in f"{said}{done.stderr}" for words in TRY_AGAIN):
            return "another push came first"
        raise _failed(self.store, done)

    def run(self, *arguments: str, good: tuple[int, ...] = (0,)) -> Completed:
        try:
            done = proc.run(
                ["git", *arguments], timeout=GIT_SECONDS, check=False, cwd=self.folder, env=self.environment()
            )
        except CommandFailed as error:
            raise InfraError(f"{self.store.name}: {error.summary}", hint="is git installed?") from error
        if done.returncode not in good:
            raise _failed(self.store, done)
        return done

    def environment(self) -> dict[str, str]:
        """Return git's surroundings: its own repository, no questions, and secrets where `ps` does not show them."""
        config = {
            f"remote.{REMOTE}.url": self.store.url,
            "user.name": "vmatrix",
            "user.email": "vmatrix@localhost",
            "commit.gpgsign": "false",
            "core.autocrlf": "false",
            "gc.auto": "0",
        }
        if self.store.token:
            basic = base64.b64encode(f"oauth2:{self.store.token}".encode()).decode()
            config["http.extraHeader"] = f"Authorization: Basic {basic}"
        first = int(os.environ.get("GIT_CONFIG_COUNT", "0") or "0")
        keys = {f"GIT_CONFIG_KEY_{first + n}": key for n, key in enumerate(config)}
        values = {f"GIT_CONFIG_VALUE_{first + n}": value for n, value in enumerate(config.values())}
        return {
            "GIT_DIR": str(self.folder / ".git"),
            "GIT_WORK_TREE": str(self.folder),
            "GIT_INDEX_FILE": str(self.folder / ".git" / "index"),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": str(first + len(config)),
            "LC_ALL": "C",
            **keys,
            **values,
        }


def remote_url(checkout: Path, remote: str, *, own_token: bool) -> str:
    """Return the URL that a checkout's remote stands for; of one that is a URL or a path, itself.

    Args:
        own_token: leave out the account that the URL names: another one is used.

    Raises:
        InfraError: the checkout has no such remote.
    """
    url = remote
    if "/" not in remote:
        try:
            url = proc.run(["git", "-C", checkout, "remote", "get-url", remote], timeout=GIT_SECONDS).stdout.strip()
        except CommandFailed as error:
            hint = "set report_remote to the name of a remote, or to a URL"
            raise InfraError(f"{checkout} has no git remote {remote!r}", hint=hint) from error
    parts = urlsplit(url)
    if own_token and parts.scheme in ("http", "https") and "@" in parts.netloc:
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return url


def _failed(store: BranchStore, done: Completed) -> InfraError:
    """Return git's failure without what is secret."""
    environment: Mapping[str, str] = {**os.environ, "STORE_TOKEN": store.token}
    said = scrubber(environment)("\n".join((done.stdout + done.stderr).strip().splitlines()[-8:]))
    command = " ".join(done.argv[:2])
    return InfraError(f"{store.name}: `{command}` ended with status {done.returncode}", detail=said, hint=HINT)
