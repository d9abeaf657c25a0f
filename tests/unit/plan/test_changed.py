"""What a changed file can affect, and which files git says have changed, in a real repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import proc
from harness.errors import BadInput
from harness.plan.cells import make_cell
from harness.plan.changed import Changes, changed_since, effects, matches, owners_of
from harness.spec import Spec, load_spec
from tests.unit.spec.conftest import TODAY, edit, write

FRESH = {"version": "v3", "os": "deb", "topology": "two", "scenario": "fresh"}
UPGRADE = {**FRESH, "scenario": "upgrade"}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    project: Path = tmp_path_factory.mktemp("project")
    write(project)
    axes = project / "matrix" / "axes.yml"
    edit(axes, "before: {minor: v1},", "before: {minor: v1}, paths: [playbooks/roles/v2/**, matrix/lists/v2.yml],")
    edit(axes, "image: debian}", "image: debian, paths: [playbooks/roles/os/**]}")
    return load_spec(project / "matrix", today=TODAY)


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "docs", False),
        ("docs/**", "src/docs/a", False),
        ("**/*.md", "README.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("**/*.md", "a/b/cmd", False),
        ("roles/*/tasks/main.yml", "roles/etcd/tasks/main.yml", True),
        ("roles/*/tasks/main.yml", "roles/a/b/tasks/main.yml", False),
        ("roles/**/main.yml", "roles/main.yml", True),
        ("a?.txt", "ab.txt", True),
        ("a?.txt", "a/.txt", False),
        ("Makefile", "Makefile", True),
        ("a.b", "axb", False),
        ("a[1].yml", "a[1].yml", True),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    assert matches(glob, path) is fits


@pytest.mark.parametrize(
    ("path", "fresh", "upgrade"),
    [
        ("playbooks/roles/os/tasks/main.yml", "affects os deb", "affects os deb"),
        ("playbooks/upgrade.yml", "", "affects phase upgrade"),
        ("playbooks/cluster.yml", "affects phase deploy", "affects phase deploy"),
        ("playbooks/roles/upgrade/x", "", "affects phase upgrade"),
        ("matrix/lists/v2.yml", "", "affects version v2"),  # an upgrade to v3 starts from v2
        ("docs/readme", "", ""),
        ("harness/model.py", "may affect every cell", "may affect every cell"),
    ],
)
def test_what_a_path_affects(spec: Spec, path: str, fresh: str, upgrade: str) -> None:
    found = effects(spec, [path])
    for values, wanted in ((FRESH, fresh), (UPGRADE, upgrade)):
        assert found.on(make_cell(spec, values)) == (f"{path} {wanted}" if wanted else "")


def test_a_harmless_file_is_harmless_wherever_it_lies(spec: Spec) -> None:
    product = spec.product.model_copy(update={"without_effect": ("**/*.md",)})
    found = effects(spec.model_copy(update={"product": product}), ["playbooks/roles/os/README.md"])
    assert found.on(make_cell(spec, FRESH)) == ""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository in whose folder `project` main and a branch have gone on since they parted."""
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    commit(project, "old", "renamed", "same", ".gitignore")
    git(project, "checkout", "-q", "-b", "work")
    commit(project, "added ü")
    git(project, "mv", "renamed", "moved")
    git(project, "rm", "-q", "old")
    git(project, "commit", "-q", "-m", "x")
    git(project, "checkout", "-q", "main")
    commit(project, "only on main")
    git(project, "checkout", "-q", "work")
    return project


def git(project: Path, *words: str) -> None:
    """Run git with an identity of its own and nobody's settings."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    proc.run(["git", "-C", project, *identity, *words], timeout=60)


def commit(project: Path, *names: str) -> None:
    """Write files and commit them."""
    for name in names:
        (project / name).write_text(f"{name}\n", encoding="utf-8")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "x")


def test_changes_are_those_since_the_branches_parted(checkout: Path) -> None:
    assert changed_since(checkout, "main") == Changes("main", ("added ü", "moved", "old", "renamed"))


def test_changes_that_nobody_committed_count(checkout: Path) -> None:
    (checkout / "same").write_text("other\n", encoding="utf-8")
    (checkout / "new").touch()
    assert changed_since(checkout, "HEAD").paths == ("new", "same")


def test_paths_are_relative_to_a_project_that_is_a_part_of_its_repository(checkout: Path) -> None:
    (checkout / "part").mkdir()
    commit(checkout, "part/inside", "outside")
    assert changed_since(checkout / "part", "HEAD~1").paths == ("inside",)


@pytest.mark.parametrize("revision", ["nope", "--help", "", "HEAD~99", "main:old"])
def test_a_revision_that_git_does_not_know_is_bad_input(checkout: Path, revision: str) -> None:
    with pytest.raises(BadInput, match="git does not know the revision") as caught:
        changed_since(checkout, revision)
    assert "git fetch" in caught.value.hint


def test_a_folder_that_is_no_checkout_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(BadInput, match="not a git repository"):
        changed_since(tmp_path, "main")


def test_histories_without_a_common_ancestor_are_bad_input(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "--orphan", "other")
    git(checkout, "commit", "-q", "-m", "x")
    with pytest.raises(BadInput, match="no common ancestor"):
        changed_since(checkout, "main")


OWNERS = """\
# comment
*                     @all
/playbooks/           @deploy @ops
*.md                  @writers
playbooks/roles/etcd/ @storage

[Security] @sec
harness/**            @harness
tls
^[Optional][2]
docs/a\\ b.md          @spaces
"""


@pytest.mark.parametrize(
    ("paths", "owners"),
    [
        (["Makefile"], ("@all",)),
        (["playbooks/site.yml"], ("@deploy", "@ops")),
        (["playbooks/README.md"], ("@writers",)),
        (["playbooks/roles/etcd/tasks/main.yml"], ("@storage",)),
        (["harness/x/y.py"], ("@all", "@harness")),
        (["deploy/tls/key"], ("@all", "@sec")),
        (["docs/a b.md"], ("@writers", "@spaces")),
        (["Makefile", "playbooks/site.yml"], ("@all", "@deploy", "@ops")),
        ([], ()),
    ],
)
def test_owners_are_those_of_the_last_line_that_fits_in_each_section(
    paths: list[str], owners: tuple[str, ...], tmp_path: Path
) -> None:
    assert owners_of(tmp_path, paths) == ()
    (tmp_path / "CODEOWNERS").write_text(OWNERS, encoding="utf-8")
    assert owners_of(tmp_path, paths) == owners
