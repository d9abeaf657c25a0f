"""The search for the commit since which a cell fails: on a repository of ten commits, one of which is at fault."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import proc
from harness.errors import BadInput
from harness.session.bisection import (
    Bisection,
    CellRuns,
    Repository,
    RevisionTrial,
    RevisionVerdict,
    Stopped,
    first_failure_at,
    good_and_bad,
    ordered,
    resumed,
    save,
    search,
    verdict_of,
)

GOOD, BAD, SKIPPED = RevisionVerdict.GOOD, RevisionVerdict.BAD, RevisionVerdict.SKIPPED
COMMITS = 10


def git(where: Path, *words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada"}
    env = {**os.environ, **who, "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
    call = [shutil.which("git") or "git", *words]
    done = subprocess.run(call, cwd=where, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository whose project lies in a folder; commit N writes N into it."""
    folder = tmp_path / "repository"
    (folder / "deploy").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for number in range(COMMITS + 1):
        (folder / "deploy" / "number").write_text(str(number), encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Change {number}")
    return folder


def product(planted: int, tried: list[int], cannot_tell: tuple[int, ...] = ()) -> Callable[[Path], RevisionTrial]:
    """Return a run that fails from a commit on, and looks at what is checked out."""

    def trial(tree: Path) -> RevisionTrial:
        number = int((tree / "deploy" / "number").read_text(encoding="utf-8"))
        tried.append(number)
        if number in cannot_tell:
            return RevisionTrial(SKIPPED, "r", "provision: no room")
        return RevisionTrial(BAD, "r", "nodes: services: kubelet") if number >= planted else RevisionTrial(GOOD, "r")

    return trial


def begun(root: Path) -> tuple[Repository, Bisection]:
    repository = Repository.of(root / "deploy")
    good, bad = repository.commit(f"HEAD~{COMMITS}"), repository.commit("main")
    return repository, Bisection("c", good, repository.between(good, bad))


@pytest.mark.parametrize("planted", range(1, COMMITS + 1))
def test_a_planted_fault_is_found_in_at_most_four_runs(root: Path, tmp_path: Path, planted: int) -> None:
    repository, search_ = begun(root)
    assert len(search_.revisions) == COMMITS
    tried: list[int] = []
    found = search(search_, repository, tmp_path / "runs", product(planted, tried), lambda _: None)
    (culprit,) = found.open
    assert repository.revision(culprit).title.endswith(f"Change {planted}")
    assert repository.revision(culprit).author == "Ada <ada@example.org>"
    assert len(tried) <= 4
    assert len(set(tried)) == len(tried)


def two_faults(tried: list[int]) -> Callable[[Path], RevisionTrial]:
    """Return a run of a cell in which one check fails from the third commit on, and another from the sixth."""
    planted = {"nodes: modes": 3, "cluster: labels": 6}

    def trial(tree: Path) -> RevisionTrial:
        number = int((tree / "deploy" / "number").read_text(encoding="utf-8"))
        tried.append(number)
        failing = tuple(title for title, first in planted.items() if number >= first)
        passed = tuple(title for title in planted if title not in failing)
        return RevisionTrial(BAD if failing else GOOD, "r", "nodes: modes: 0666" if failing else "", failing, passed)

    return trial


def test_each_of_two_faults_of_a_cell_has_its_own_commit_and_no_run_is_repeated(root: Path, tmp_path: Path) -> None:
    repository, plain = begun(root)
    tried: list[int] = []
    for titles, commit in ((("cluster: labels",), "Change 6"), (("nodes: modes",), "Change 3"), ((), "Change 3")):
        search_ = resumed(replace(plain, titles=titles), tmp_path / "search.json")
        found = search(search_, repository, tmp_path, two_faults(tried), lambda _: None)
        (culprit,) = found.open
        assert repository.revision(culprit).title.endswith(commit), titles
    assert len(set(tried)) == len(tried)


@pytest.mark.parametrize(
    ("titles", "verdict"), [((), BAD), (("a",), BAD), (("a", "b"), BAD), (("b",), GOOD), (("c",), SKIPPED)]
)
def test_a_run_tells_of_a_check_what_it_came_to_and_nothing_where_it_was_not_judged(
    titles: tuple[str, ...], verdict: RevisionVerdict
) -> None:
    assert RevisionTrial(BAD, "r", "a: x", ("a",), ("b",)).verdict_on(titles) is verdict


def test_nothing_is_left_of_its_work_tree(root: Path, tmp_path: Path) -> None:
    repository, search_ = begun(root)
    search(search_, repository, tmp_path / "runs", product(3, []), lambda _: None)
    assert not (tmp_path / "runs" / "tree").exists()
    assert len(git(root, "worktree", "list").splitlines()) == 1
    assert git(root, "status", "--porcelain") == ""
    assert (root / "deploy" / "number").read_text(encoding="utf-8") == str(COMMITS)


def test_the_users_checkout_stays_as_it_is_whatever_repository_git_is_told_of(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in hooks, aliases and `rebase --exec`."""
    (root / "deploy" / "number").write_text("edited", encoding="utf-8")
    (root / "untracked").touch()
    before = git(root, "status", "--porcelain", "--branch"), git(root, "rev-parse", "HEAD")
    with monkeypatch.context() as told:
        told.setenv("GIT_DIR", str(root / ".git"))
        told.setenv("GIT_WORK_TREE", str(root))
        told.setenv("GIT_INDEX_FILE", str(root / ".git" / "index"))
        repository, search_ = begun(root)
        tried: list[int] = []
        found = search(search_, repository, tmp_path / "runs", product(3, tried), lambda _: None)
        (culprit,) = found.open
        assert repository.revision(culprit).title.endswith("Change 3"), "by what is checked out of each commit"
    assert (git(root, "status", "--porcelain", "--branch"), git(root, "rev-parse", "HEAD")) == before
    assert (root / "deploy" / "number").read_text(encoding="utf-8") == "edited"
    assert (root / "untracked").exists()


LOCAL = ("-c", "protocol.file.allow=always")  # which git asks for, for submodules in folders


def repository_of(folder: Path, *states: str) -> Path:
    """Return a repository with a commit for each state of its file `state`."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for state in states:
        commit(folder, state)
    return folder


def commit(folder: Path, state: str) -> None:
    (folder / "state").write_text(state, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"State {state}")


def add_submodule(folder: Path, of: Path, name: str = "roles") -> None:
    git(folder, *LOCAL, "submodule", "--quiet", "add", "--name", name, str(of), "roles")
    git(folder, "commit", "-q", "-m", "Add roles")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a repository of one empty commit."""
    git(folder := repository_of(tmp_path / "home"), "commit", "-q", "--allow-empty", "-m", "Begin")
    return folder


def states(home: Path, tmp_path: Path, *revisions: str, file: str = "roles/state") -> list[str]:
    """Check revisions out in a tree, and return what a file has at each; the repository stays as it was."""
    settings = (home / ".git" / "config").read_text(encoding="utf-8")
    repository = Repository.of(home)
    there = []
    with repository.tree(tmp_path / "tree") as tree:
        for revision in revisions:
            repository.check_out(tree, repository.commit(revision))
            there.append((tree / file).read_text(encoding="utf-8") if (tree / file).exists() else "")
            assert git(tree, "status", "--porcelain", "--ignored") == ""
            if (tree / "roles").is_dir():
                (tree / "roles" / "left").touch()
    assert (home / ".git" / "config").read_text(encoding="utf-8") == settings
    assert not (tmp_path / "tree").exists()
    assert git(home, "worktree", "list").count("\n") == 0
    return there


# How a person's own checkout has its submodules, which does not count: settings of git.
OWN_SETTINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "as it is": (),
    "not active": (("submodule.roles.active", "false"),),
    "not updated": (("submodule.roles.update", "none"),),
    "merged": (("submodule.roles.update", "merge"),),
    "by a command": (("submodule.roles.update", "!false"),),
    "recursing": (("submodule.recurse", "true"),),
    "without an address": (("submodule.roles.url", ""),),
}


@pytest.mark.parametrize("settings", OWN_SETTINGS.values(), ids=OWN_SETTINGS)
def test_each_commit_has_its_submodules(home: Path, tmp_path: Path, settings: tuple[tuple[str, str], ...]) -> None:
    add_submodule(home, repository_of(tmp_path / "roles", "a", "b"))
    git(home / "roles", "checkout", "-q", "HEAD~1")
    git(home, "commit", "-q", "-a", "-m", "Go back")
    for key, value in settings:
        git(home, "config", key, value)
    assert states(home, tmp_path, "HEAD", "HEAD~1", "HEAD~2", "HEAD") == ["a", "b", "", "a"]


@pytest.mark.parametrize("name", ["a=b", "a.b c", "deep/er", "x.url"])
def test_a_submodule_has_any_name(home: Path, tmp_path: Path, name: str) -> None:
    add_submodule(home, roles := repository_of(tmp_path / "roles", "a"), name)
    roles.rename(tmp_path / "elsewhere")
    assert states(home, tmp_path, "HEAD", "HEAD~1") == ["a", ""]


# What a commit's .gitmodules may have: none of it is a submodule, and none of it runs.
BESIDE = (
    '[submodule "none"]\n\tpath = none\n\turl = x\n',
    '[submodule "dot"]\n\tpath = .\n\turl = x\n',
    '[submodule "up"]\n\tpath = ../home\n\turl = x\n',
    '[submodule "word"]\n\tpath = --all\n\turl = x\n',
    '[submodule "empty"]\n\tpath =\n',
    '[submodule "roles.update=!touch ran; #"]\n\tpath = roles\n\turl = x\n',
)


@pytest.mark.parametrize("entry", BESIDE)
def test_what_git_does_not_have_as_a_submodule_is_none(home: Path, tmp_path: Path, entry: str) -> None:
    add_submodule(home, repository_of(tmp_path / "roles", "a"))
    with (home / ".gitmodules").open("a", encoding="utf-8") as file:
        file.write(entry)
    git(home, "commit", "-q", "-a", "-m", "Name another one")
    assert states(home, tmp_path, "HEAD", "HEAD~1")[1] == "a"
    assert not list(tmp_path.rglob("ran"))


def test_a_submodule_has_its_own_submodules(home: Path, tmp_path: Path) -> None:
    add_submodule(outer := repository_of(tmp_path / "outer"), inner := repository_of(tmp_path / "inner", "a"))
    add_submodule(home, outer)
    commit(inner, "b")
    git(home, *LOCAL, "submodule", "--quiet", "update", "--init", "--recursive")
    git(home / "roles" / "roles", "pull", "-q", "origin", "main")
    git(home / "roles", "commit", "-q", "-a", "-m", "Go on")
    git(home, "commit", "-q", "-a", "-m", "Go on")
    assert states(home, tmp_path, "HEAD", "HEAD~1", file="roles/roles/state") == ["b", "a"]
    git(home, "rm", "-q", "-r", "roles")
    git(home, "commit", "-q", "-m", "Remove it")
    assert states(home, tmp_path, "HEAD~1", file="roles/roles/state") == ["b"]


def test_a_commit_of_a_submodule_that_is_not_fetched_is_fetched(home: Path, tmp_path: Path) -> None:
    add_submodule(home, roles := repository_of(tmp_path / "roles", "a"))
    commit(roles, "b")
    git(home, "update-index", "--cacheinfo", f"160000,{git(roles, 'rev-parse', 'HEAD')},roles")
    git(home, "commit", "-q", "-m", "Go on")
    assert states(home, tmp_path, "HEAD", "HEAD~1") == ["b", "a"]


def test_a_commit_whose_submodule_is_not_to_be_had_is_skipped(home: Path, tmp_path: Path) -> None:
    add_submodule(home, repository_of(tmp_path / "roles", "a"))
    git(home, "update-index", "--cacheinfo", f"160000,{'1' * 40},roles")
    git(home, "commit", "-q", "-m", "Go on")
    git(home, "commit", "-q", "-a", "-m", "Go back")
    repository = Repository.of(home)
    revisions = repository.between(repository.commit("HEAD~2"), repository.commit("HEAD"))
    done = search(Bisection("c", "x", revisions), repository, tmp_path / "search", product(0, []), lambda _: None)
    assert [(trial.verdict, trial.run) for trial in done.trials.values()] == [(SKIPPED, "")]
    assert "the submodule roles has no commit 111111111111: " in done.trials[revisions[0]].said


def test_a_submodule_that_moved_is_known_by_its_name(home: Path, tmp_path: Path) -> None:
    add_submodule(home, repository_of(tmp_path / "roles", "a"))
    git(home, "mv", "roles", "other")
    git(home, "commit", "-q", "-m", "Move it")
    assert states(home, tmp_path, "HEAD", "HEAD~1", file="other/state") == ["a", ""]
    assert states(home, tmp_path, "HEAD", "HEAD~1") == ["", "a"]


def test_a_submodule_that_was_removed_is_there_in_earlier_commits(home: Path, tmp_path: Path) -> None:
    add_submodule(home, roles := repository_of(tmp_path / "roles", "a"))
    git(home, "rm", "-q", "roles")
    git(home, "commit", "-q", "-m", "Remove it")
    roles.rename(tmp_path / "elsewhere")
    assert states(home, tmp_path, "HEAD", "HEAD~1") == ["", "a"]


def test_a_submodule_that_was_never_there_stays_an_empty_folder(home: Path, tmp_path: Path) -> None:
    add_submodule(home, repository_of(tmp_path / "roles", "a"))
    git(tmp_path, "clone", "-q", str(home), "clone")
    assert states(tmp_path / "clone", tmp_path, "HEAD") == [""]


def test_a_search_that_was_stopped_goes_on_where_it_was(root: Path, tmp_path: Path) -> None:
    repository, search_ = begun(root)
    tried: list[int] = []
    plain = product(7, tried)

    def until_the_second(tree: Path) -> RevisionTrial:
        if len(tried) == 2:
            raise Stopped
        return plain(tree)

    with pytest.raises(Stopped):
        search(search_, repository, tmp_path / "runs", until_the_second, lambda _: None)
    assert not (tmp_path / "runs" / "tree").exists()
    again = resumed(search_, tmp_path / "runs" / "search.json")
    assert len(again.trials) == 2
    found = search(again, repository, tmp_path / "runs", plain, lambda _: None)
    assert repository.revision(found.open[0]).title.endswith("Change 7")
    assert len(tried) <= 4
    assert len(set(tried)) == len(tried)


def test_a_tree_that_a_killed_search_left_is_no_hindrance(root: Path, tmp_path: Path) -> None:
    repository, search_ = begun(root)
    git(root, "worktree", "add", "--detach", str(tmp_path / "runs" / "tree"), "HEAD")
    (tmp_path / "runs" / "tree" / "left").write_text("x", encoding="utf-8")
    found = search(search_, repository, tmp_path / "runs", product(2, []), lambda _: None)
    assert len(found.open) == 1


def test_what_is_not_the_products_fault_is_passed_over(root: Path, tmp_path: Path) -> None:
    repository, search_ = begun(root)
    tried: list[int] = []
    found = search(search_, repository, tmp_path / "runs", product(8, tried, (5, 4, 6)), lambda _: None)
    assert repository.revision(found.open[0]).title.endswith("Change 8")
    assert len(found.open) == 1


def test_commits_that_cannot_be_told_apart_are_all_named(root: Path, tmp_path: Path) -> None:
    repository, search_ = begun(root)
    found = search(search_, repository, tmp_path / "runs", product(5, [], (4, 5, 6)), lambda _: None)
    assert [repository.revision(one).title[-1] for one in found.open] == ["4", "5", "6", "7"]
    titles = [repository.revision(one).title for one in found.revisions]
    assert sum("skipped" in line for line in ordered(found, titles)) == 3


def test_what_failed_in_something_else_than_later_ones_is_said(root: Path, tmp_path: Path) -> None:
    repository, search_ = begun(root)
    plain = product(3, [])

    def shaky(tree: Path) -> RevisionTrial:
        number = int((tree / "deploy" / "number").read_text(encoding="utf-8"))
        return RevisionTrial(BAD, "r", "network: dns: no answer") if number == 2 else plain(tree)

    assert search(search_, repository, tmp_path / "a", plain, lambda _: None).otherwise == ()
    found = search(search_, repository, tmp_path / "b", shaky, lambda _: None)
    assert [repository.revision(one).title[-1] for one in (*found.open, *found.otherwise)] == ["2", "5"]
    assert [line for line in ordered(found) if line.startswith(" ")] == ["  network: dns", "  nodes: services"]


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        ("deploy: task [node : Join a node] failed on w-0: a: b", ("deploy", "task [node : Join a node]")),
        ("network: dns: no answer: b", ("network", "dns")),
        ("machines", ("machines",)),
    ],
)
def test_what_failed_first_is_the_whole_task_or_check(said: str, failed: tuple[str, ...]) -> None:
    assert RevisionTrial(BAD, "r", said).failed == failed


@pytest.mark.parametrize(("code", "verdict"), [(0, GOOD), (1, BAD), *((c, SKIPPED) for c in (2, 3, 4, 5, 70, 75))])
def test_only_the_product_makes_a_revision_bad(code: int, verdict: RevisionVerdict) -> None:
    assert verdict_of(code) is verdict


@pytest.mark.parametrize(
    ("code", "explained", "kept"),
    [(2, 2, True), (4, 0, True), *((code, 0, False) for code in (3, 5, 70, 75))],
)
def test_what_a_run_says_of_the_infrastructure_is_no_answer(
    code: int, explained: int, kept: bool, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, search_ = begun(root)
    monkeypatch.setattr(proc, "attend", lambda *_, **__: code)
    monkeypatch.setattr(CellRuns, "_explains", lambda *_: explained == 0)
    runs = CellRuns(repository, "c", tmp_path / "runs", [])
    tried = search_.tried(search_.revisions[4], runs.trial(root))
    assert next(iter(tried.trials.values())).verdict is SKIPPED
    save(tried, tmp_path / "search.json")
    assert len(resumed(search_, tmp_path / "search.json").trials) == kept


def test_a_run_that_is_refused_for_a_setting_ends_the_search(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, search_ = begun(root)
    calls: list[list[str]] = []
    plain = proc.run

    def played(argv: list[str], **options: Any) -> Any:
        if "explain" not in argv:
            return plain(argv, **options)
        calls.append(argv)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(proc, "attend", lambda *_, **__: 2)
    monkeypatch.setattr(proc, "run", played)
    runs = CellRuns(repository, "c", tmp_path / "runs", ["--kubeconfig", "k", "--infra-profile", "x"])
    with pytest.raises(BadInput, match="vmatrix run refused c, and not for what the project says"):
        search(search_, repository, tmp_path / "runs", runs.trial, lambda _: None)
    assert calls[0][-4:] == ["explain", "c", "--infra-profile", "x"]
    assert not (tmp_path / "runs" / "search.json").exists()


def test_a_commit_that_an_earlier_release_skipped_is_tried_again(tmp_path: Path) -> None:
    entry = {"verdict": "skipped", "run": "r", "said": "", "failing": [], "passed": []}
    trials = {"a": entry, "b": {**entry, "verdict": "bad"}}
    (tmp_path / "search.json").write_text(json.dumps({"cell": "c", "trials": trials}), encoding="utf-8")
    assert [*resumed(Bisection("c", "g", ("a", "b")), tmp_path / "search.json").trials] == ["b"]


@pytest.mark.parametrize("name", ["ends with a blank ", "\n", "a\r\nb", "  ", os.fsdecode(b"caf\xe9")])
def test_a_repository_in_a_folder_of_any_name(root: Path, name: str) -> None:
    folder = root.parent / name
    root.rename(folder)
    repository = Repository.of(folder / "deploy")
    assert (repository.root, repository.inside) == (folder.resolve(), Path("deploy"))
    with repository.tree(folder.parent / f"tree{name}") as tree:
        repository.check_out(tree, repository.commit("HEAD~1"))
        assert (tree / "deploy" / "number").read_text(encoding="utf-8") == str(COMMITS - 1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cell": "c"}', '{"cell": "c", "trials": {"a": {"verdict": "odd"}}}'])
def test_a_file_that_is_no_search(tmp_path: Path, text: str) -> None:
    (tmp_path / "search.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="is not a search of vmatrix bisect"):
        resumed(Bisection("c", "g", ("a", "b")), tmp_path / "search.json")


def test_what_another_cell_came_to_does_not_count(tmp_path: Path) -> None:
    save(Bisection("other", "g", ("a", "b"), {"a": RevisionTrial(BAD)}), tmp_path / "search.json")
    assert resumed(Bisection("c", "g", ("a", "b")), tmp_path / "search.json").trials == {}


def test_commits_are_in_order_whatever_clocks_say(root: Path) -> None:
    repository = Repository.of(root / "deploy")
    own = repository.ancestors("main~1")
    names = [*repository.between(repository.commit(f"HEAD~{COMMITS}"), repository.commit("main"))]
    assert [own.get(name) for name in names] == [*range(1, COMMITS), None]
    runs = [ran(names[7], "failed", "product"), ran(names[2], "passed"), ran(names[4], "passed")]  # by a wrong clock
    by_commit = sorted(runs, key=lambda run: own[run.where.commit])
    assert good_and_bad(by_commit, "c", None, None) == (names[4], names[7])


def test_revisions_that_cannot_be(root: Path, tmp_path: Path) -> None:
    repository, _ = begun(root)
    for good, bad in (("main", "main"), ("main", "main~1")):
        with pytest.raises(BadInput, match="is not before"):
            repository.between(repository.commit(good), repository.commit(bad))
    with pytest.raises(BadInput, match="does not know the revision 'nope'"):
        repository.commit("nope")
    with pytest.raises(BadInput, match="is in no repository"):
        Repository.of(tmp_path)


def ran(commit: str, outcome: str, blame: str = "", *, cell: str = "c", changed: bool = False) -> Any:
    return SimpleNamespace(
        cell=cell, outcome=outcome, blame=blame, where=SimpleNamespace(commit=commit, changed=changed)
    )


HISTORY = [
    ran("a", "failed", "product"),
    ran("b", "passed"),
    ran("c", "passed", cell="other"),
    ran("d", "failed", "infra"),
    ran("e", "failed", "product", changed=True),
    ran("f", "failed", "product"),
    ran("g", "failed", "product"),
]


def test_the_last_pass_and_the_first_failure_of_the_product_since() -> None:
    assert good_and_bad(HISTORY, "c", None, None) == ("b", "f")


def test_what_a_person_names_counts() -> None:
    assert good_and_bad(HISTORY, "c", "v1", None) == ("v1", "f")
    assert good_and_bad(HISTORY, "c", None, "main") == ("b", "main")


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "in which c passed"),
        (HISTORY[:1], "in which c passed"),
        (HISTORY[:4], "failed since by the product's fault"),
    ],
)
def test_a_history_that_does_not_say(records: list[Any], says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        good_and_bad(records, "c", None, None)
    assert "REV" in refused.value.hint


def test_what_failed_first_at_a_commit_is_the_last_runs_step_or_check() -> None:
    def failed(steps: list[Any], notes: list[Any]) -> Any:
        made = ran("f", "failed", "product")
        made.steps, made.notes = steps, notes
        return made

    step = SimpleNamespace(name="deploy", outcome="failed", message="task [x] failed\nmore")
    note = SimpleNamespace(checks=("nodes: test_a", "nodes: test_b"), outcome="failed", cause="cp-0: expected y; saw z")
    passed = SimpleNamespace(name="provision", outcome="passed", message="")
    assert first_failure_at([failed([passed, step], [note])], "c", "f") == "deploy: task [x] failed"
    assert first_failure_at([failed([passed], [note])], "c", "f") == "nodes: test_a: cp-0: expected y; saw z"
    assert first_failure_at([failed([passed], [])], "c", "g") == ""
