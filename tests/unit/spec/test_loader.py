"""Every mistake in matrix/ is said at once, by file, line and field."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import BadInput
from harness.paths import project_dir
from harness.spec import load_spec
from harness.spec.crossref import check
from harness.spec.lines import read


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """A copy of the shipped matrix beside a product."""
    shutil.copytree(project_dir() / "matrix", tmp_path / "matrix")
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "cluster.yml").write_text("[]\n")
    return tmp_path / "matrix"


def edit(file: Path, old: str, new: str) -> int:
    """Replace the first occurrence and return its line."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def refusal(matrix: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_spec(matrix)
    assert caught.value.exit_code == 2
    return caught.value.summary


def test_the_shipped_matrix_loads() -> None:
    spec = load_spec(project_dir() / "matrix")
    assert [a.name for a in spec.axes] == [
        "kubernetes",
        "os",
        "runtime",
        "network",
        "proxy",
        "topology",
        "scenario",
        "source",
    ]
    assert "smoke" in spec.tiers


def test_an_unknown_key_names_line_path_and_the_nearest_known_one(matrix: Path) -> None:
    line = edit(matrix / "topologies.yml", "memory: 2560Mi", "memroy: 2560Mi")
    said = refusal(matrix)
    assert f"topologies.yml:{line}: topologies.all-in-one.machines[0].memroy: unknown key; did you mean memory?" in said


def test_mistakes_in_several_files_come_together(matrix: Path) -> None:
    edit(matrix / "tiers.yml", "topology: cp1-w1", "topology: cp1-w9")
    edit(matrix / "scenarios.yml", "phase: deploy", "phase: deplyo")
    edit(matrix / "axes.yml", "until: 2027-02-28", "until: 2020-01-01")
    edit(matrix / "timeouts.yml", "golden_image: 600", "golden_image: -1")
    assert "timeouts.yml:4: timeouts.golden_image" in refusal(matrix)
    edit(matrix / "timeouts.yml", "golden_image: -1", "golden_image: 600")
    said = refusal(matrix)
    assert "the first phase must be deploy" in said
    edit(matrix / "scenarios.yml", "phase: deplyo", "phase: deploy")
    said = refusal(matrix)
    assert "unknown value of axis topology 'cp1-w9'; did you mean 'cp1-w2'?" in said
    assert "1.35.4 is out of support since 2020-01-01" in said


def test_a_topology_without_a_worker_is_refused(matrix: Path) -> None:
    edit(matrix / "topologies.yml", "groups: [control_plane, etcd, node]", "groups: [control_plane, etcd]")
    assert "topologies.all-in-one: no machine is in the group node" in refusal(matrix)


def test_a_tier_over_its_budget_is_refused(matrix: Path) -> None:
    edit(matrix / "tiers.yml", "machines: 2", "machines: 1")
    assert "the cell needs 2 machines, the tier's budget is 1" in refusal(matrix)


def test_a_duplicate_key_names_both_lines(matrix: Path) -> None:
    file = matrix / "timeouts.yml"
    file.write_text(file.read_text() + "  ssh: 1\n")
    said = refusal(matrix)
    assert "timeouts.ssh: the key stands twice; the first is on line" in said


def test_two_values_with_one_slug_are_refused(matrix: Path) -> None:
    edit(matrix / "axes.yml", "slug: c1w1", "slug: a1")
    assert "slug 'a1' is already that of 'all-in-one'" in refusal(matrix)


def test_malformed_yaml_names_the_line(matrix: Path) -> None:
    (matrix / "product.yml").write_text("product:\n  name: [unclosed\n")
    assert "product.yml:3: malformed YAML" in refusal(matrix)


def test_a_missing_file_is_said(matrix: Path) -> None:
    (matrix / "axes.yml").unlink()
    assert "axes.yml:1: the file does not exist" in refusal(matrix)


def test_support_is_judged_by_the_given_day(matrix: Path) -> None:
    spec = load_spec(matrix)
    documents = {name: read(matrix / name)[0] for name in ("axes.yml", "tiers.yml", "topologies.yml", "scenarios.yml")}
    documents["product.yml"] = read(matrix / "product.yml")[0]
    assert check(spec, documents, matrix, today=date(2026, 1, 1)) == []
    assert "debian-13 is out of support" in str(check(spec, documents, matrix, today=date(2031, 1, 1)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.one_of(st.text(max_size=200), st.binary(max_size=200).map(lambda b: b.decode("latin-1"))))
def test_no_file_content_makes_it_crash(matrix: Path, content: str) -> None:
    (matrix / "tiers.yml").write_text(content, encoding="utf-8", errors="surrogateescape")
    try:
        load_spec(matrix)
    except BadInput as error:
        assert "tiers.yml" in error.summary  # noqa: PT017 - valid content may pass too


def test_a_project_without_a_matrix_is_one_mistake(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no matrix in") as caught:
        load_spec(tmp_path / "matrix")
    assert "VMATRIX_PROJECT" in caught.value.hint
