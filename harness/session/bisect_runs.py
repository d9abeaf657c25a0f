"""The runs of a search between revisions: one cell at each, judged by whose fault a failure is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import EXIT_OK, EXIT_PRODUCT
from harness.paths import PROJECT
from harness.report.results import RunResult, load
from harness.report.step import FAILED
from harness.rundir import RunDir
from harness.session.bisection import Bisection, RevisionTrial, RevisionVerdict, save
from harness.session.plan import random_id
from harness.session.revisions import Repository


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
        """Run the cell with the project in a work tree. Raises Stopped when the run was interrupted."""
        run = random_id()
        words = [self.cell, "--run-id", run, "--runs", str(self.runs.resolve()), *self.options]
        project = str(tree / self.repository.inside)
        program = [sys.executable, "-P", "-c", "from harness.cli import main; main()"]
        code = proc.attend([*program, "run", *words], env={PROJECT: project}, cwd=Path(project))
        if proc.by_signal(code):
            raise Stopped
        directory = RunDir.of(self.runs, run)
        return RevisionTrial(
            verdict_of(code), run, first_failure(load(directory.path)) if directory.results.is_file() else ""
        )


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
            if check.outcome == FAILED:
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
    file, found = folder / "search.json", begun
    with repository.tree(folder / "tree") as tree:
        while (revision := found.following) is not None:
            said = repository.revision(revision)
            say(f"{said.title}: {len(found.open)} revisions left, {found.runs_left} runs at most")
            repository.check_out(tree, revision)
            made = trial(tree)
            found = found.tried(revision, made)
            save(found, file)
            say(f"{said.title}: {made.verdict.value}" + (f": {made.said}" if made.said else ""))
    return found
