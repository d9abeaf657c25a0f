"""What a new project consists of: few files that are valid by the loader and by the schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.errors import BadInput
from harness.plan.goal import unplayed
from harness.spec import load_spec
from harness.spec.new_project import NewProject
from harness.spec.schemas import schemas


def lay(project: Path, *playbooks: str) -> Path:
    """Make a folder with playbooks."""
    (project / "deploy").mkdir()
    for name in playbooks:
        (project / "deploy" / name).write_text("[]\n", encoding="utf-8")
    return project


def written(project: NewProject) -> dict[str, str]:
    """Write a project's files."""
    files = project.files()
    for name, text in files.items():
        (project.directory / name).parent.mkdir(exist_ok=True)
        (project.directory / name).write_text(text, encoding="utf-8")
    return files


@pytest.mark.parametrize(
    ("phases", "scenarios"),
    [
        ({"deploy": "site.yml"}, {"fresh"}),
        ({"deploy": "site.yml", "reset": "reset.yml"}, {"fresh", "reset"}),
        ({"deploy": "site.yml", "scale-out": "site.yml", "scale-in": "reset.yml"}, {"fresh", "scale"}),
    ],
)
def test_a_product_without_all_phases_is_a_valid_project(
    tmp_path: Path, phases: dict[str, str], scenarios: set[str]
) -> None:
    files = written(NewProject(lay(tmp_path, "site.yml", "reset.yml"), "ours", "deploy", phases, "group/vmatrix"))
    spec = load_spec(tmp_path / "matrix")
    assert spec.product.name == "ours"
    assert {name: phase.playbook for name, phase in spec.product.phases.items()} == phases
    left_out = {out.value for out in unplayed(spec)}
    assert {value.id for value in spec.axis("scenario").values} - left_out == scenarios
    assert sorted(files) == [".gitignore", ".gitlab-ci.yml", "matrix/product.yml", "matrix/tiers.yml"]
    assert list(spec.tiers) == ["smoke"]
    for name, text in files.items():
        if name.startswith("matrix/"):
            schema = json.loads(schemas()[Path(name).stem])
            assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []
            assert text.startswith(f"# yaml-language-server: $schema=../docs/schemas/{Path(name).stem}.json\n# ")


def test_a_product_with_all_phases_needs_two_files_of_the_matrix(tmp_path: Path) -> None:
    known = load_spec(tmp_path / "nowhere").product.phases
    files = NewProject(lay(tmp_path, "site.yml"), "ours", "deploy", dict.fromkeys(known, "site.yml")).files()
    assert sorted(files) == [".gitignore", "matrix/product.yml", "matrix/tiers.yml"]


def test_vmatrix_own_playbooks_need_an_empty_file(tmp_path: Path) -> None:
    files = written(NewProject(tmp_path, gitlab="group/vmatrix"))
    assert sorted(files) == [".gitignore", ".gitlab-ci.yml", "vmatrix.yml"]
    assert yaml.safe_load(files["vmatrix.yml"]) is None
    assert load_spec(tmp_path / "matrix") == load_spec(tmp_path / "nowhere")


@pytest.mark.parametrize("playbooks", [None, "deploy"])
def test_the_pipeline_includes_vmatrix(tmp_path: Path, playbooks: str | None) -> None:
    lay(tmp_path, "site.yml")
    project = NewProject(tmp_path, "ours", playbooks, {"deploy": "site.yml"}, "group/vmatrix")
    (include,) = yaml.safe_load(project.files()[".gitlab-ci.yml"])["include"]
    assert include["project"] == include["inputs"]["vmatrix_project"] == "group/vmatrix"
    assert include["inputs"].get("nightly_tier") == ("smoke" if playbooks else None)
    assert "product" not in include["inputs"], "jobs work on the project"


@pytest.mark.parametrize(
    ("folder", "phases", "said"),
    [
        ("nowhere", {"deploy": "site.yml"}, "nowhere does not exist"),
        ("deploy", {"reset": "site.yml"}, "there is no playbook for phase deploy"),
        ("deploy", {"deploy": "cluster.yml"}, r"cluster\.yml does not exist"),
        ("deploy", {"deploy": "site.yml", "upgrad": "site.yml"}, "unknown phase 'upgrad'; did you mean 'upgrade'"),
    ],
)
def test_what_does_not_exist_is_refused(tmp_path: Path, folder: str, phases: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        NewProject(lay(tmp_path, "site.yml"), "ours", folder, phases).files()


def test_a_project_is_not_made_twice(tmp_path: Path) -> None:
    written(NewProject(tmp_path))
    with pytest.raises(BadInput, match="is a project already"):
        NewProject(tmp_path).files()
