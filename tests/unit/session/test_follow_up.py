"""Further cells: possible ones that tell most of what may explain failures, and the cheapest of these."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from harness import proc
from harness.events import Recorder
from harness.history.lines import History
from harness.history.record import RunOrigin
from harness.paths import project_dir
from harness.plan.cells import cell_named
from harness.plan.goal import Goal
from harness.plan.tiers import tier_cells
from harness.report.results import RunResult, load
from harness.report.suspects import Explained, Observation, Suspect, explained
from harness.rundir import SUMMARY
from harness.session import follow_up
from harness.session.bisection import CellRuns, RevisionTrial, RevisionVerdict
from harness.session.follow_up import Pursuit, further, pursue, why_none
from harness.spec import load_spec
from harness.spec.models import Cover
from harness.spec.project import Project
from harness.spec.rules import Rule
from harness.spec.settings import Settings
from tests.unit.history.make import checked, record

VALUES = {"runtime": ("containerd", "crio"), "ip": ("ipv4", "dual", "ipv6"), "os": ("d12", "d13"), "size": ("s", "xl")}
NEVER = Rule({"runtime": frozenset({"crio"})}, {"ip": frozenset({"ipv4", "dual"})}, "no IPv6 with crio")
GOAL = Goal(VALUES, {axis: {v: v for v in known} for axis, known in VALUES.items()}, (NEVER,), Cover(strength=2))
CULPRIT = {"runtime": "crio", "ip": "dual"}


def observed(number: int, cell: dict[str, str]) -> Observation:
    failed = CULPRIT.items() <= cell.items()
    keys = frozenset({("network: test_pods", "no answer")} if failed else ())
    return Observation(f"c{number}", cell, keys, frozenset() if failed else frozenset({"network: test_pods"}))


def cells() -> list[dict[str, str]]:
    every = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]
    return [cell for cell in every if GOAL.allows(cell)]


def few() -> list[Observation]:
    """Return what a few cells say, of which one has the culprit."""
    failing = {**CULPRIT, "os": "d12", "size": "s"}
    passing = [{**failing, "runtime": "containerd"}, {**failing, "ip": "ipv4"}]
    passing += [{"runtime": "containerd", "ip": ip, "os": "d13", "size": "xl"} for ip in VALUES["ip"]]
    return [observed(n, cell) for n, cell in enumerate([failing, *passing])]


def suspect(share: float, **values: str) -> Suspect:
    return Suspect(tuple(values.items()), share, 1, 1, 0, 5)


def explanation(seen: list[Observation]) -> Explained:
    (found,) = explained(seen)
    return found


def test_a_few_further_cells_lead_to_the_culprit() -> None:
    seen = few()
    assert explanation(seen).named is None
    for number in range(4):
        row = further(GOAL, [explanation(seen)], Random(number), lambda _: 1.0)  # noqa: S311 - candidates
        if row is None:
            break
        assert GOAL.allows(row)
        seen.append(observed(10 + number, row))
    named = explanation(seen).named
    assert named is not None
    assert dict(named.values) == CULPRIT


@pytest.mark.parametrize("cheap", ["s", "xl"])
def test_of_cells_that_tell_as_much_the_cheapest_is_run(cheap: str) -> None:
    found = Explained((("a", "b"),), ("c",), (suspect(0.5, os="d12"), suspect(0.4, ip="dual")), 0.1)
    row = further(GOAL, [found], Random(1), lambda row: 1.0 if row["size"] == cheap else 9.0)  # noqa: S311 - candidates
    assert row is not None
    assert (row["size"], row["os"]) == (cheap, "d12")


def test_one_cell_tells_of_several_failures() -> None:
    failures = [
        Explained((("a", "x"),), ("c",), (suspect(0.5, os="d12"), suspect(0.4, runtime="crio")), 0.1),
        Explained((("b", "x"),), ("d",), (suspect(0.5, ip="dual"), suspect(0.4, size="xl")), 0.1),
    ]
    row = further(GOAL, failures, Random(1), lambda _: 1.0)  # noqa: S311 - candidates
    assert row is not None
    assert (row["os"] == "d12") != (row["runtime"] == "crio")
    assert (row["ip"] == "dual") != (row["size"] == "xl")


def test_no_cell_is_made_where_none_tells_more() -> None:
    sure = explanation([observed(n, cell) for n, cell in enumerate(cells() * 2)])
    assert sure.named is not None
    assert further(GOAL, [sure], Random(1), lambda _: 1.0) is None  # noqa: S311 - candidates
    nobody = Explained((("a", "b"),), ("c",), (), 1.0)
    assert further(GOAL, [nobody], Random(1), lambda _: 1.0) is None  # noqa: S311 - candidates


def open_failure(*suspects: Suspect) -> Explained:
    return Explained((("network: test_pods", "x"),), ("c",), suspects, 0.1)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (open_failure(), "it may well be chance, and no other cell can have what this one has"),
        (replace(open_failure(), chance=0.9, passed=6), "most likely by chance"),
        (
            open_failure(Suspect((("node", "w"),), 0.5, 1, 1, 0, 5, around=True)),
            "no cell chooses its node, runner or hour",
        ),
        (
            open_failure(suspect(0.5, runtime="crio", ip="ipv6"), suspect(0.4, runtime="crio")),
            "no possible cell tells more of runtime crio with ip ipv6 and runtime crio",
        ),
        (
            open_failure(suspect(0.5, ip="ipv6"), suspect(0.4, runtime="containerd")),
            "every possible cell with ip ipv6 has runtime containerd, too: no IPv6 with crio",
        ),
    ],
)
def test_why_no_cell_can_be_made_is_said(found: Explained, why: str) -> None:
    assert why_none(GOAL, found) == f"network: test_pods: {why}"


VALUES_OF = {"ip": "dual"}


def pursued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, good: bool = True
) -> tuple[list[str], list[tuple[str, str]]]:
    """Bisect the suspect of a run over a repository of four commits; return what was said, and what was tried."""
    monkeypatch.setenv("VMATRIX_PROJECT", str(project_dir()))
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "A Person")
        monkeypatch.setenv(f"{name}_EMAIL", "a@example.org")
    root = tmp_path / "repository"
    root.mkdir()
    git: list[str | Path] = ["git", "-C", root, "-c", "init.defaultBranch=main"]
    proc.run([*git, "init", "-q"], timeout=20)
    for number in range(4):
        (root / f"f{number}").write_text(str(number), encoding="utf-8")
        (root / "CODEOWNERS").write_text("f2 @owner\n", encoding="utf-8")
        proc.run([*git, "add", "-A"], timeout=20)
        proc.run([*git, "commit", "-qm", f"Change {number}"], timeout=20)
    commits = proc.run([*git, "rev-list", "--reverse", "HEAD"], timeout=20).stdout.split()
    tree = f"{commits[0]}^{{tree}}"
    other = proc.run([*git, "commit-tree", "-p", commits[0], "-m", "Other branch", tree], timeout=20).stdout.strip()
    spec = load_spec(project_dir() / "matrix")
    cells = tier_cells(spec, "nightly", "embedded")
    settings = Settings(runs=tmp_path / "runs")
    recorder = Recorder(settings.runs / "abcdef")
    recorder.run_dir.mkdir(parents=True)
    values = {cell.id: dict(cell.values) for cell in cells}
    recorder.write("run-start", run="abcdef", tier="nightly", cells=list(values), values=values, where={})
    for cell in cells:
        outcome = "failed" if VALUES_OF.items() <= cell.values.items() else "passed"
        recorder.write("check", cell=cell.id, attempt=1, suite="s", name="c", outcome=outcome, seconds=1.0)
    history = [
        replace(
            checked(record(n), {"s: c": result}), where=RunOrigin(commit=commit), axes={**cells[0].values, **VALUES_OF}
        )
        for n, commit, result in ((0, commits[0], "p" if good else "f"), (2, other, "p"), (3, commits[3], "f"))
    ]
    monkeypatch.setattr(follow_up, "open_store", lambda *_: SimpleNamespace(load=lambda: History(tuple(history))))
    tried: list[tuple[str, str]] = []

    def trial(runs: CellRuns, tree: Path) -> RevisionTrial:
        name = proc.run(["git", "-C", tree, "log", "-1", "--format=%s"], timeout=20).stdout.strip()
        tried.append((runs.cell, name))
        assert list(runs.options) == ["--tier", "nightly"], "the suites of the run's tier"
        if name >= "Change 2":
            return RevisionTrial(RevisionVerdict.BAD, failing=("s: c",))
        return RevisionTrial(RevisionVerdict.GOOD, passed=("s: c",))

    monkeypatch.setattr(CellRuns, "trial", trial)
    said: list[str] = []
    pursue(Pursuit(Project(root, spec, settings), "abcdef", [], said.append), 0, bisect=True)
    return said, tried


@dataclass
class FurtherCells:
    """A run of three cells of which one failed; what becomes of each call that adds a cell to it, in their order."""

    recorder: Recorder
    project: Project
    ends: list[str]
    calls: list[str] = field(default_factory=list)

    def attend(self, argv: Sequence[str]) -> int:
        """Run the cell that a call is about, which passes, or ends by a signal to this process or to the cell's."""
        cell = argv[argv.index("--into") - 1]
        self.calls.append(cell)
        end = self.ends.pop(0)
        found = cell_named(self.project.spec, cell)
        assert found is not None
        self.recorder.write("rerun-start", run="abcdef", cells=[cell], values={cell: dict(found.values)}, where={})
        if end == "passed":
            self.judged(cell, self.calls.count(cell), "passed")
        else:
            self.recorder.write("step-start", cell=cell, attempt=self.calls.count(cell), step=["provision"])
        if end == "terminated":
            raise KeyboardInterrupt
        return 143 if end == "killed" else 0

    def judged(self, cell: str, attempt: int, outcome: str) -> None:
        """Write down what an attempt came to."""
        at = {"cell": cell, "attempt": attempt}
        self.recorder.write("check", **at, suite="s", name="c", outcome=outcome, seconds=1.0)
        self.recorder.write("step-start", **at, step=["teardown"])
        self.recorder.write("step-end", **at, step=["teardown"], outcome="passed", seconds=1.0)

    def pursue(self, ends: Sequence[str], most: int = 1) -> RunResult:
        """Run further cells; return what the run came to."""
        self.ends = [*ends]
        with suppress(KeyboardInterrupt):
            pursue(Pursuit(self.project, "abcdef", [], lambda _: None), most, bisect=False)
        return load(self.recorder.run_dir)


@pytest.fixture
def further_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FurtherCells:
    """A run of the tier nightly that has its first cells alone."""
    spec = load_spec(project_dir() / "matrix")
    recorder = Recorder(tmp_path / "runs" / "abcdef")
    recorder.run_dir.mkdir(parents=True)
    made = FurtherCells(recorder, Project(tmp_path, spec, Settings(runs=tmp_path / "runs")), [])
    cells = tier_cells(spec, "nightly", "embedded")[:12]
    values = {cell.id: dict(cell.values) for cell in cells}
    recorder.write("run-start", run="abcdef", tier="nightly", cells=list(values), values=values, where={})
    crio = [cell.id for cell in cells if cell.values["runtime"].startswith("crio")]
    assert 0 < len(crio) < len(cells)
    for cell in cells:
        made.judged(cell.id, 1, "failed" if cell.id in crio[:2] else "passed")
    monkeypatch.setattr(proc, "attend", made.attend)
    return made


@pytest.mark.parametrize("end", ["terminated", "killed"])
def test_a_further_cell_that_was_cut_off_is_named_and_run_anew(further_cells: FurtherCells, end: str) -> None:
    result = further_cells.pursue([end], most=4)
    (cell,) = further_cells.calls
    assert result.further == (cell,)
    assert result.no_further == (f"{cell} was not run to its end; to go on: vmatrix suspect abcdef --run",)
    summary = (further_cells.recorder.run_dir / SUMMARY).read_text(encoding="utf-8")
    assert f"- further cells: `{cell}`" in summary

    result = further_cells.pursue(["passed"])
    assert further_cells.calls == [cell, cell]
    assert result.further == (cell,)
    assert "was not run to its end" not in " ".join(result.no_further)
    further_cells.pursue(["passed"])
    assert further_cells.calls.count(cell) == 2


def test_the_commit_of_a_suspect_and_its_owners_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, tried = pursued(tmp_path, monkeypatch)
    assert {name for _, name in tried} == {"Change 1", "Change 2"}
    assert said[-1].startswith("ip dual: since ")
    assert " Change 2 (A Person <a@example.org>, " in said[-1]
    assert said[-1].endswith("; owners: @owner")
    summary = (tmp_path / "runs" / "abcdef" / "summary.md").read_text(encoding="utf-8")
    assert "- ip dual: since " in summary
    assert "@owner" in summary
    (culprit,) = load(tmp_path / "runs" / "abcdef").culprits
    assert (culprit.values, culprit.checks, culprit.owners) == ((("ip", "dual"),), ("s: c",), ("@owner",))


def test_what_never_passed_is_not_bisected_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, tried = pursued(tmp_path, monkeypatch, good=False)
    assert tried == []
    assert "since when: the history has no commit at which these values passed before" in said[-1]
    assert "look at playbooks/roles/network_plugin/**" in said[-1]
