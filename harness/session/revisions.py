"""The revisions of the project's repository, and a work tree in which one of them is checked out for a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import BadInput

GIT_SECONDS = 120.0  # a checkout of a large repository on a busy disk; against hanging
FIELDS = "%H%x00%h %s%x00%an <%ae>%x00%ad"


@dataclass(frozen=True)
class Commit:
    """A commit: its name, its short name with the first line of its message, who wrote it and when."""

    name: str
    title: str
    author: str
    date: str


@dataclass(frozen=True)
class Repository:
    """The repository that a project lies in."""

    root: Path
    inside: Path  # the project, from the root

    @staticmethod
    def of(project: Path) -> Repository:
        """Return the repository of a project. Raises BadInput where there is none."""
        done = _git(project, "rev-parse", "--show-toplevel")
        if done.returncode != 0:
            raise BadInput(
                f"{project} is in no repository of git", hint="vmatrix bisect tries the revisions of the project's own"
            )
        root = Path(done.stdout.strip()).resolve()
        return Repository(root, project.resolve().relative_to(root))

    def commit(self, word: str) -> str:
        """Return the full name of a revision. Raises BadInput when git does not know it."""
        done = _git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
        if done.returncode != 0:
            raise BadInput(
                f"git does not know the revision {word!r}",
                hint="name a branch, tag or commit; a shallow clone lacks older ones: `git fetch --unshallow`",
            )
        return done.stdout.strip()

    def between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the commits on the way from a good one to a bad one, without the first, oldest first.

        Raises:
            BadInput: the one is no ancestor of the other.
        """
        if good == bad or _git(self.root, "merge-base", "--is-ancestor", good, bad).returncode != 0:
            raise BadInput(
                f"{good[:12]} is not before {bad[:12]}", hint="--good names an older commit that --bad was made from"
            )
        done = _git(self.root, "rev-list", "--reverse", "--ancestry-path", "--topo-order", f"{good}..{bad}")
        return tuple(done.stdout.split())

    def revision(self, name: str) -> Commit:
        """Return a commit."""
        done = _git(self.root, "show", "--no-patch", f"--format={FIELDS}", "--date=short", name)
        return Commit(*done.stdout.rstrip("\n").split("\0"))

    @contextmanager
    def tree(self, folder: Path) -> Iterator[Path]:
        """Yield a work tree of its own in a folder, and remove it; one that a killed process left is replaced."""
        self._remove(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        done = _git(self.root, "worktree", "add", "--detach", "--force", str(folder), "HEAD")
        if done.returncode != 0:
            raise BadInput(
                f"git makes no work tree in {folder}: {done.stderr.strip()}", hint="look at: git worktree list"
            )
        try:
            yield folder
        finally:
            self._remove(folder)

    def check_out(self, tree: Path, name: str) -> None:
        """Check a commit out in a work tree, with nothing of another one left."""
        for words in (("checkout", "--force", "--detach", name), ("clean", "-ffdxq")):
            done = _git(tree, *words)
            if done.returncode != 0:
                raise BadInput(f"git {words[0]} {name[:12]}: {done.stderr.strip()}", hint=f"look at {tree}")

    def _remove(self, folder: Path) -> None:
        _git(self.root, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)
        _git(self.root, "worktree", "prune")


def _git(where: Path, *words: str) -> proc.Completed:
    try:
        return proc.run(["git", "-C", where, *words], timeout=GIT_SECONDS, check=False)
    except proc.CommandFailed as failure:
        raise BadInput(failure.summary, hint="vmatrix bisect needs git; is it installed?") from failure
