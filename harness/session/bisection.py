"""Bisection: find the commit since which a cell fails, by runs of one cell at revisions between good and bad."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness import proc
from harness.errors import EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED, EXIT_OK, EXIT_PRODUCT, BadInput, Blame
from harness.files import read_text, write_atomically
from harness.history.record import Record
from harness.interpreter import vmatrix_call
from harness.model import Outcome
from harness.paths import PROJECT
from harness.report.results import RunResult, load
from harness.report.suspects import of_run
from harness.rundir import RunDir
from harness.session.plan import random_id

FIRST_FAILED = re.compile(r"(?P<step>[^:]+): (?P<task>task \[[^]]*\])")  # a role's task has a colon of its own


class RevisionVerdict(StrEnum):
    """What a run at a revision says of the product."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"  # the run failed, and not by the product


@dataclass(frozen=True)
class RevisionTrial:
    """A revision that was tried: its verdict, the id of its run, what failed first.

    failing, passed: titles of checks and names of steps; a failure that is not the product's is in neither.
    lasting: whether another run would say the same: not where the infrastructure failed.
    """

    verdict: RevisionVerdict
    run: str = ""
    said: str = ""
    failing: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    lasting: bool = True

    @property
    def failed(self) -> tuple[str, ...]:
        """Return the suite or step that failed first and the check or task in it, without its text."""
        match = FIRST_FAILED.match(self.said)
        return match.groups() if match else tuple(self.said.split(": ")[:2])

    def verdict_on(self, titles: Collection[str]) -> RevisionVerdict:
        """Return what the run says of some checks or steps, whatever else failed in it; without any, of all."""
        if not titles:
            return self.verdict
        if not set(titles).isdisjoint(self.failing):
            return RevisionVerdict.BAD
        return RevisionVerdict.SKIPPED if set(titles).isdisjoint(self.passed) else RevisionVerdict.GOOD


@dataclass(frozen=True)
class Bisection:
    """A search.

    revisions: after the good one, oldest first; the last one is bad.  titles: of the checks or steps that it is about,
    as a cell may fail by several faults; empty: of all.
    """

    cell: str
    good: str
    revisions: tuple[str, ...]
    trials: Mapping[str, RevisionTrial] = field(default_factory=dict)
    titles: tuple[str, ...] = ()

    @property
    def open(self) -> tuple[str, ...]:
        """Return the revisions of which one is the first bad one."""
        return self.revisions[self._last_good + 1 : self._first_bad + 1]

    @property
    def following(self) -> str | None:
        """Return the revision to try next, the nearest to the middle; None when nothing is left to be tried."""
        within = self.open[:-1]
        left = [number for number, revision in enumerate(within) if revision not in self.trials]
        middle = (len(within) - 1) / 2
        return within[min(left, key=lambda number: (abs(number - middle), number))] if left else None

    @property
    def runs_left(self) -> int:
        """Return how many runs it takes at most, if each can tell."""
        return (len(self.open) - 1).bit_length()

    @property
    def otherwise(self) -> tuple[str, ...]:
        """Return the bad revisions after the found one that failed in something else first, oldest first."""
        first_bad = self.trials.get(self.open[-1], RevisionTrial(RevisionVerdict.BAD))
        later = (
            revision for revision in self.revisions[self._first_bad + 1 :] if self._is(revision, RevisionVerdict.BAD)
        )
        return tuple(
            revision for revision in later if first_bad.said and self.trials[revision].failed != first_bad.failed
        )

    def tried(self, revision: str, trial: RevisionTrial) -> Bisection:
        """Return the search with one more revision that was tried."""
        return replace(self, trials={**self.trials, revision: trial})

    @property
    def _first_bad(self) -> int:
        bad = (n for n, revision in enumerate(self.revisions) if self._is(revision, RevisionVerdict.BAD))
        return next(bad, len(self.revisions) - 1)

    @property
    def _last_good(self) -> int:
        good = (n for n in range(self._first_bad) if self._is(self.revisions[n], RevisionVerdict.GOOD))
        return max(good, default=-1)

    def _is(self, revision: str, verdict: RevisionVerdict) -> bool:
        return revision in self.trials and self.trials[revision].verdict_on(self.titles) is verdict


def save(search: Bisection, file: Path) -> None:
    """Write a search down, so that another process can go on."""
    trials = {revision: asdict(trial) for revision, trial in search.trials.items()}
    content = {"cell": search.cell, "good": search.good, "revisions": search.revisions, "trials": trials}
    write_atomically(file, json.dumps(content, indent=2) + "\n")


def resumed(search: Bisection, file: Path) -> Bisection:
    """Return a search with what earlier ones about the same cell have found out of its revisions.

    A run that said nothing, and may say something the next time, is not among it.

    Raises:
        BadInput: the file is not what `save` writes.
    """
    if not file.exists():
        return search
    try:
        known: dict[str, Any] = json.loads(read_text(file))
        trials = {
            revision: RevisionTrial(
                RevisionVerdict(entry["verdict"]),
                entry["run"],
                entry["said"],
                tuple(entry["failing"]),
                tuple(entry["passed"]),
                bool(entry.get("lasting")),
            )
            for revision, entry in known["trials"].items()
            if revision in search.revisions and known["cell"] == search.cell
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            f"{file} is not a search of vmatrix bisect", hint=f"remove it to begin anew: rm {file}"
        ) from error
    kept = {
        revision: trial
        for revision, trial in trials.items()
        if trial.lasting or trial.verdict_on(search.titles) is not RevisionVerdict.SKIPPED
    }
    return replace(search, trials=kept)


def ordered(search: Bisection, titles: Sequence[str] = ()) -> list[str]:
    """Return what was tried, in the order of the revisions; `titles`: of all revisions."""
    names = dict(zip(search.revisions, titles, strict=False))
    return [
        line.rstrip()
        for revision in search.revisions
        if (trial := search.trials.get(revision)) is not None
        for line in (
            f"{revision[:12]} {trial.verdict.value:8} {names.get(revision, '')}",
            *([f"  {': '.join(trial.failed)}"] if trial.said else []),
        )
    ]


LOCAL_CLONES = {"protocol.file.allow": "always"}  # which git asks for, where it does not clone for a person
GITLINK = "160000"  # the mode of a submodule in git's index
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
        done = _git(project, "rev-parse", "--show-cdup")  # dots and slashes, whatever the names of folders have in them
        if done.returncode != 0:
            raise BadInput(
                f"{project} is in no repository of git", hint="vmatrix bisect tries the revisions of the project's own"
            )
        inside = project.resolve()
        root = (inside / done.stdout.strip()).resolve()
        return Repository(root, inside.relative_to(root))

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
            BadInput: the one is not an ancestor of the other.
        """
        if good == bad or _git(self.root, "merge-base", "--is-ancestor", good, bad).returncode != 0:
            raise BadInput(
                f"{good[:12]} is not before {bad[:12]}", hint="--good names an older commit that --bad was made from"
            )
        done = _git(self.root, "rev-list", "--reverse", "--ancestry-path", "--topo-order", f"{good}..{bad}")
        return tuple(done.stdout.split())

    def ancestors(self, name: str) -> dict[str, int]:
        """Return a commit and all that it was made from, as far as the clone has them, numbered from the oldest on.

        Commits are in order by themselves, whatever the clocks of the hosts say that tested them. BadInput as `commit`.
        """
        done = _git(self.root, "rev-list", "--topo-order", "--reverse", self.commit(name))
        return {commit: number for number, commit in enumerate(done.stdout.split())}

    def revision(self, name: str) -> Commit:
        """Return a commit."""
        done = _git(self.root, "show", "--no-patch", f"--format={FIELDS}", "--date=short", name)
        return Commit(*done.stdout.rstrip("\n").split("\0"))

    def changed_in(self, name: str) -> tuple[str, ...]:
        """Return the files that a commit changes, from the root."""
        done = _git(self.root, "show", "--format=", "--name-only", "-z", "--first-parent", name)
        return tuple(path for path in done.stdout.split("\0") if path)

    @contextmanager
    def tree(self, folder: Path) -> Iterator[Path]:
        """Yield a work tree of its own in a folder, and remove it; one that a killed process left is replaced."""
        self._remove(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        done = _git(
            *(self.root, "-c", "submodule.recurse=false"),
            *("worktree", "add", "--detach", "--force", str(folder), "HEAD"),
        )
        if done.returncode != 0:
            raise BadInput(
                f"git makes no work tree in {folder}: {done.stderr.strip()}", hint="look at: git worktree list"
            )
        try:
            yield folder
        finally:
            self._remove(folder)

    def check_out(self, tree: Path, name: str) -> None:
        """Check a commit out in a work tree, with nothing of another one left, and the submodules that the root has.

        Raises:
            BadInput: git cannot.  NoSubmodule: no repository has the commit of a submodule.
        """
        for words in (("checkout", "--force", "--detach", name), ("clean", "-ffdxq")):
            done = _git(tree, "-c", "submodule.recurse=false", *words)
            if done.returncode != 0:
                raise BadInput(f"git {words[0]} {name[:12]}: {done.stderr.strip()}", hint=f"look at {tree}")
        _check_out_submodules(self.root, tree)

    def _remove(self, folder: Path) -> None:
        _git(self.root, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)
        _git(self.root, "worktree", "prune")


class NoSubmodule(BadInput):
    """A commit has a submodule whose own commit is not to be had: nothing can be said of that commit."""


def _check_out_submodules(own: Path, tree: Path) -> None:
    """Check out the submodules of a tree, and theirs, from where a repository has them; nothing else is left in them.

    The repository's settings are those of all its work trees: they are only read, and how it updates submodules itself
    does not count. Where its submodule lacks the commit, that is fetched from where the submodule came from. What the
    repository never had stays an empty folder, as it is in its own checkout.

    Raises:
        NoSubmodule: no repository has the commit.
    """
    names = {path: name for name, path in _submodules(tree).items()}
    links = _gitlinks(own)
    present = {name: own / path for name, path in _submodules(own).items() if path in links}
    for path, commit in _gitlinks(tree).items():
        name = names.get(path, "")
        source = _source(own, name, present.get(name)) if name else None
        if source is None:
            continue
        settings = {"url": str(source), "active": "true", "update": "checkout"}
        env = _settings({**{f"submodule.{name}.{key}": value for key, value in settings.items()}, **LOCAL_CLONES})
        update = ("--literal-pathspecs", "submodule", "--quiet", "update", "--checkout", "--force", "--", path)
        done = _git(tree, *update, env=env)
        trouble = done.stderr.strip()
        if done.returncode != 0 and (tree / path / ".git").exists():
            url = _git(own, "config", f"submodule.{name}.url").stdout.removesuffix("\n")
            url = url or _git(source, "config", "remote.origin.url").stdout.removesuffix("\n")
            fetched = _git(tree / path, "fetch", "--quiet", "--end-of-options", url or ".", commit)
            trouble = fetched.stderr.strip() or trouble
            done = _git(tree, *update, env=env)
        if done.returncode != 0:
            raise NoSubmodule(
                f"the submodule {path} has no commit {commit[:12]}: {' '.join(trouble.split())}",
                hint=f"fetch it, if it still exists: git -C {own} submodule update --init --recursive",
            )
        _git(tree / path, "clean", "-ffdxq")
        _check_out_submodules(source, tree / path)


def _settings(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables of git, after those that there are; with `-c`, a name could not have a `=`."""
    first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    variables = {"GIT_CONFIG_COUNT": str(first + len(values))}
    for number, (key, value) in enumerate(values.items(), first):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _gitlinks(tree: Path) -> dict[str, str]:
    """Return the commits of a tree's submodules by path, as its index has them: `.gitmodules` may name others."""
    entries = (entry.partition("\t") for entry in _git(tree, "ls-files", "-z", "--stage").stdout.split("\0"))
    return {path: head.split()[1] for head, _, path in entries if head.startswith(GITLINK)}


def _submodules(tree: Path) -> dict[str, str]:
    """Return the paths of a tree's submodules by their names; none where `.gitmodules` cannot be read."""
    done = _git(tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    entries = (entry.partition("\n") for entry in done.stdout.split("\0") if done.returncode == 0)
    return {key.removeprefix("submodule.").removesuffix(".path"): path for key, _, path in entries if path}


def _source(own: Path, name: str, present: Path | None) -> Path | None:
    """Return where a repository has a submodule: checked out, or still in git's folder; None where it has neither."""
    if present is not None and (present / ".git").exists():
        return present
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    kept = _git(own, "rev-parse", "--git-path", f"modules/{name}").stdout.removesuffix("\n")
    folder = own / kept if kept else own / "modules" / name
    return folder if (folder / "HEAD").is_file() else None


def _git(where: Path, *words: str, env: Mapping[str, str] | None = None) -> proc.Completed:
    try:
        return proc.git(where, *words, timeout=GIT_SECONDS, env=env)
    except proc.CommandFailed as failure:
        raise BadInput(failure.summary, hint="vmatrix bisect needs git; is it installed?") from failure


class Stopped(KeyboardInterrupt):
    """A run was interrupted, and the search with it."""


@dataclass(frozen=True)
class CellRuns:
    """Runs of a cell at revisions of its project.

    runs: the folder of their results.  options: those that lead to the infra cluster.
    """

    repository: Repository
    cell: str
    runs: Path
    options: Sequence[str]

    def trial(self, tree: Path) -> RevisionTrial:
        """Run the cell with the project in a work tree.

        Raises:
            Stopped: the run was interrupted.  BadInput: it was refused, and not for what the revision's files say.
        """
        run = random_id()
        words = [self.cell, "--run-id", run, "--runs", str(self.runs.resolve()), *self.options]
        project = str(tree / self.repository.inside)
        code = proc.attend(vmatrix_call("run", *words), env={PROJECT: project}, cwd=Path(project))
        if proc.by_signal(code):
            raise Stopped
        directory = RunDir.of(self.runs, run)
        if not directory.results.is_file():
            if code == EXIT_BAD_INPUT and self._explains(project):
                raise BadInput(
                    f"vmatrix run refused {self.cell}, and not for what the project says at this revision",
                    hint="mend what the error above names; the same call goes on where the search was",
                )
            return RevisionTrial(verdict_of(code), run, lasting=code in (*LASTING, EXIT_BAD_INPUT))
        result = load(directory.path)
        failing = {title for outcome in of_run(result) for title, _ in outcome.failed}
        passed = {title for outcome in of_run(result) for title in outcome.passed}
        told = first_failure(result), (*sorted(failing),), (*sorted(passed),)
        return RevisionTrial(verdict_of(code), run, *told, lasting=code in LASTING)

    def _explains(self, project: str) -> bool:
        """Tell whether a revision's files are right and have the cell; that needs no host and no cluster."""
        pairs = zip(self.options, self.options[1:], strict=False)
        words = [word for name, value in pairs if name in OF_EXPLAIN for word in (name, value)]
        call = vmatrix_call("explain", self.cell, *words)
        done = proc.run(call, timeout=GIT_SECONDS, check=False, env={PROJECT: project}, cwd=Path(project))
        return done.returncode == EXIT_OK


LASTING = (EXIT_OK, EXIT_PRODUCT, EXIT_NOTHING_SELECTED)  # exit codes of runs that another run would end with, too
OF_EXPLAIN = ("--tier", "--infra-profile", "--provider", "--infra-name")


def verdict_of(code: int) -> RevisionVerdict:
    """Return what the exit code of a run says of the product."""
    known = {EXIT_OK: RevisionVerdict.GOOD, EXIT_PRODUCT: RevisionVerdict.BAD}
    return known.get(code, RevisionVerdict.SKIPPED)


def first_failure(result: RunResult) -> str:
    """Return the first step or check that failed, "" when none did."""
    for cell in result.cells:
        for step in cell.last_failures:
            return f"{step.name}: {step.summary}".partition("\n")[0]
        for check in cell.checks:
            if check.outcome == Outcome.FAILED:
                return f"{cell.label(check)}: {check.detail.strip()}".partition("\n")[0]
    return ""


def search(
    begun: Bisection,
    repository: Repository,
    folder: Path,
    trial: Callable[[Path], RevisionTrial],
    say: Callable[[str], None],
) -> Bisection:
    """Try revisions until the first bad one is found, or none is left that could tell; each is written down at once.

    Args:
        folder: of the search's files.  trial: runs the cell in a work tree.
    """
    file, state = folder / "search.json", begun
    with repository.tree(folder / "tree") as tree:
        while (revision := state.following) is not None:
            name = repository.revision(revision)
            say(f"{name.title}: {len(state.open)} revisions left, {state.runs_left} runs at most")
            try:
                repository.check_out(tree, revision)
            except NoSubmodule as missing:
                made = RevisionTrial(RevisionVerdict.SKIPPED, said=missing.summary, lasting=False)
            else:
                made = trial(tree)
            state = state.tried(revision, made)
            save(state, file)
            verdict = made.verdict_on(begun.titles).value
            say(f"{name.title}: {verdict}" + (f": {made.said}" if made.said and not begun.titles else ""))
    return state


def bisected(
    repository: Repository,
    cell: str,
    ends: tuple[str, str],
    runs: Path,
    options: Sequence[str],
    say: Callable[[str], None],
    titles: tuple[str, ...] = (),
) -> Bisection:
    """Search between two revisions for the commit since which a cell fails; go on with a search that was interrupted.

    Args:
        ends: a good revision and a bad one.  runs: the folder of runs; those of the search lie in `bisect` in it.
        titles: of the checks or steps whose failure is meant.

    Raises:
        BadInput: git does not know a revision, or the first is not an ancestor of the second.  Stopped: interrupted.
    """
    first, last = map(repository.commit, ends)
    folder = runs.resolve() / "bisect" / cell
    begun = resumed(Bisection(cell, first, repository.between(first, last), titles=titles), folder / "search.json")
    return search(begun, repository, folder, CellRuns(repository, cell, folder, options).trial, say)


PRODUCT = Blame.PRODUCT.value


def good_and_bad(records: Sequence[Record], cell: str, good: str | None, bad: str | None) -> tuple[str, str]:
    """Return the last commit at which a cell passed, and the first one after it at which the product failed.

    Args:
        records: the history, by commits: the oldest first.  good, bad: given by a person, and kept.

    Raises:
        BadInput: the history does not say.
    """
    own = [r for r in records if r.cell == cell and r.where.commit and not r.where.changed]
    passed = [number for number, record in enumerate(own) if record.outcome == Outcome.PASSED]
    since = own[passed[-1] + 1 :] if passed else own
    failed = [record for record in since if record.outcome == Outcome.FAILED and record.blame == PRODUCT]
    good = good or (own[passed[-1]].where.commit if passed else None)
    bad = bad or (failed[0].where.commit if failed else None)
    for name, revision in (("--good", good), ("--bad", bad)):
        if revision is None:
            what = "passed" if name == "--good" else "failed since by the product's fault"
            raise BadInput(
                f"the history has no run in which {cell} {what}",
                hint=f"name the commit: {name} REV; or add runs to the history: `vmatrix history add`",
            )
    assert good is not None  # noqa: S101 - refused above
    assert bad is not None  # noqa: S101 - refused above
    return good, bad


def first_failure_at(records: Sequence[Record], cell: str, commit: str) -> str:
    """Return what failed first in the cell's last failure by the product at a commit; "" where the history has none."""
    failure = (cell, commit, Outcome.FAILED, PRODUCT)
    own = [r for r in records if (r.cell, r.where.commit, r.outcome, r.blame) == failure]
    if not own:
        return ""
    last = own[-1]
    steps = (
        f"{entry.name}: {entry.message}" for entry in last.steps if entry.outcome == Outcome.FAILED and entry.message
    )
    checks = (
        f"{entry.checks[0]}: {entry.cause}" for entry in last.notes if entry.outcome == Outcome.FAILED and entry.checks
    )
    return next((message.partition("\n")[0] for message in (*steps, *checks)), "")
