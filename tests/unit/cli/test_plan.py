"""`vmatrix plan`: shows and proves plans, writes and checks the files that keep them, refuses what costs too much."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.plan.coverage import FILE as COVERAGE
from harness.plan.lock import FILE, load_lock
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.unit.plan.planned import call, done
from tests.unit.plan.planned import project_matrix as matrix
from tests.unit.plan.small import lay_matrix

__all__ = ["matrix"]


def refused(*options: str) -> BadInput:
    result = call(*options)
    assert isinstance(result.exception, BadInput)
    assert result.exception.exit_code == 2
    return result.exception


def edit(file: Path, old: str, new: str) -> int:
    """Replace the first occurrence and return its line."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def planned(*options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done("--json", *options))
    return found


def test_what_was_written_is_up_to_date(matrix: Path) -> None:
    assert "up to date" in done("--check")


@pytest.mark.parametrize("name", [FILE, COVERAGE])
def test_an_edited_or_missing_file_is_out_of_date(matrix: Path, name: str) -> None:
    (matrix / name).write_text((matrix / name).read_text() + "# edited\n")
    assert name in refused("--check").summary
    (matrix / name).unlink()
    assert name in refused("--check").summary
    assert "vmatrix plan --write" in refused("--check").hint


def test_a_changed_matrix_makes_the_files_out_of_date_until_they_are_written(matrix: Path) -> None:
    edit(matrix / "axes.yml", "class: two}", "class: three}")
    error = refused("--check")
    assert FILE in error.summary
    assert COVERAGE in error.summary
    done("--write")
    assert "up to date" in done("--check")


def test_json_has_cells_counts_and_reasons(matrix: Path) -> None:
    nightly, little = (
        next(p for p in planned("--infra-profile", "kubevirt") if p["tier"] == t) for t in ("nightly", "little")
    )
    assert {c["state"] for c in nightly["cells"]} == {"pinned", "kept"}
    assert all(c["feasible"] == c["covered"] > 0 for c in nightly["covered"])
    assert {"values": {"kubernetes": "1.34", "scenario": "upgrade"}} in [
        {"values": i["values"]} for i in nightly["impossible"]
    ]
    assert little["left_out"] == [
        {"axis": "scenario", "value": "upgrade", "why": "excluded by `where` of the tier little"}
    ]


def test_new_and_dropped_cells_are_told_from_kept_ones(matrix: Path) -> None:
    before = {c["id"] for c in planned("--tier", "nightly", "--infra-profile", "kubevirt")[0]["cells"]}
    edit(matrix / "axes.yml", "{id: three, slug: t3,", "{id: three, slug: t33,")
    (found,) = planned("--tier", "nightly", "--infra-profile", "kubevirt")
    assert {c["id"] for c in found["cells"] if c["state"] != "new"} <= before
    assert set(found["dropped"]) == {i for i in before if "-t3-" in i}
    text = done("--tier", "nightly", "--infra-profile", "kubevirt")
    assert all(f"{i} dropped" in " ".join(text.split()) for i in found["dropped"])


def test_the_text_shows_cells_proof_and_what_is_left_out(matrix: Path) -> None:
    text = done("--tier", "nightly", "-v")
    assert "left out on embedded: os cloud: needs internet, which the embedded infrastructure does not offer" in text
    few = done("--tier", "nightly")
    assert "os cloud: needs internet" not in few
    assert re.search(r"left out: \d+ kinds of cells; `vmatrix plan -v` says which, and why", few)
    assert "upgrade starts from an earlier kubernetes" in text
    assert "pairs of classes: " in text
    for cell in tier_cells(load_spec(matrix), "nightly", "kubevirt", load_lock(matrix)):
        assert cell.id in text


def test_repack_and_seed_change_only_what_is_named(matrix: Path) -> None:
    before = load_lock(matrix)
    done("--repack", "--seed", "5", "--tier", "nightly", "--infra-profile", "kubevirt", "--write")
    after = load_lock(matrix)
    assert after.cells("embedded", "nightly") == before.cells("embedded", "nightly")
    assert after.cells("kubevirt", "little") == before.cells("kubevirt", "little")
    assert after.cells("kubevirt", "nightly") != before.cells("kubevirt", "nightly")
    assert "up to date" in done("--check")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("budget: {cells: 20,", "budget: {cells: 6,", "budget.cells: on kubevirt the tier has "),
        ("machines: 3, minutes: 60}", "machines: 2, minutes: 60}", "has 3 machines, the budget is 2"),
        ("machines: 3, minutes: 60}", "machines: 3, minutes: 1}", "minutes, not 1"),
    ],
)
def test_over_budget_is_a_mistake_in_the_tier_and_nothing_is_written(
    matrix: Path, old: str, new: str, message: str
) -> None:
    line = edit(matrix / "tiers.yml", old, new)
    text = (matrix / FILE).read_text()
    for options in ((), ("--write", "--repack"), ("--check",)):
        summary = refused(*options).summary
        assert f"tiers.yml:{line}: tiers.nightly.budget" in summary
        assert message in summary
    assert (matrix / FILE).read_text() == text


def test_check_goes_with_nothing_else(matrix: Path) -> None:
    assert "--check" in refused("--check", "--write").summary


def test_unknown_names_are_refused(matrix: Path) -> None:
    assert "did you mean 'nightly'" in refused("--tier", "nigtly").summary
    assert "did you mean 'kubevirt'" in refused("--infra-profile", "kubvirt").summary


def installation(tmp_path: Path) -> tuple[Path, dict[Path, bytes]]:
    """Make a project whose matrix/ links to files that are not its own; return it, and these files' bytes."""
    theirs = tmp_path / "installed" / "matrix"
    theirs.mkdir(parents=True)
    for name in (FILE, "COVERAGE.md"):
        (theirs / name).write_text("theirs\n", encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    lay_matrix(project)
    return project, {file: file.read_bytes() for file in theirs.iterdir()}


def test_a_link_in_the_place_of_a_plan_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, theirs = installation(tmp_path)
    for file in theirs:
        (project / "matrix" / file.name).symlink_to(file)
    (project / "matrix" / FILE).unlink()
    (project / "matrix" / FILE).symlink_to(tmp_path / "installed" / "nothing.yml")
    monkeypatch.setenv("VMATRIX_PROJECT", str(project))
    done("--write")
    assert {file: file.read_bytes() for file in theirs} == theirs
    assert not (tmp_path / "installed" / "nothing.yml").exists()
    assert not any((project / "matrix" / file.name).is_symlink() for file in theirs)
    assert "kubevirt" in (project / "matrix" / FILE).read_text(encoding="utf-8")


def test_a_plan_is_not_written_into_a_folder_outside_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, theirs = installation(tmp_path)
    folder = tmp_path / "installed" / "matrix"
    for file in (project / "matrix").iterdir():
        file.rename(folder / file.name)
    (project / "matrix").rmdir()
    (project / "matrix").symlink_to(folder)
    (folder / FILE).unlink()
    monkeypatch.setenv("VMATRIX_PROJECT", str(project))
    refused = call("--write")
    assert isinstance(refused.exception, BadInput)
    assert f"{project / 'matrix'} leads to {folder}, which is not part of the project" in refused.exception.summary
    assert not (folder / FILE).exists()
    assert (folder / "COVERAGE.md").read_bytes() == theirs[folder / "COVERAGE.md"]
