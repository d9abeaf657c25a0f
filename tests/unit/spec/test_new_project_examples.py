"""A new project has the files of the example that it begins with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.files import write_new
from harness.paths import packaged_dir
from harness.spec import load_spec
from harness.spec import new_project_examples as packaged
from harness.spec.new_project import NewProject

HEAD = "# yaml-language-server: $schema=../../../docs/schemas/{}.json\n"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An example in a package."""
    root = tmp_path / "package" / "examples" / "one"
    for name in ("matrix", "bin", "runs/x"):
        (root / name).mkdir(parents=True)
    (root / "matrix/product.yml").write_text(HEAD.format("product") + "product: {kind: command}\n", encoding="utf-8")
    (root / "matrix/tiers.yml").write_text(HEAD.format("tiers") + "tiers: {first: {}, second: {}}\n", encoding="utf-8")
    (root / "bin/deploy.sh").write_text("true\n", encoding="utf-8")
    (root / "bin/deploy.sh").chmod(0o755)
    (root / "runs/x/log").touch()
    (root / "README.md").touch()
    (tmp_path / "package/examples/notes").mkdir()
    monkeypatch.setattr(packaged, "packaged_dir", lambda: tmp_path / "package")
    return root


def test_an_example_is_a_folder_with_a_product(example: Path) -> None:
    assert packaged.examples() == ("one",)
    assert packaged.kind_of("one") == "command"
    assert packaged.tier_of("one") == "first"


def test_its_files_become_the_projects(example: Path, tmp_path: Path) -> None:
    made = NewProject(tmp_path / "new", "ours", "one").files()
    assert made["bin/deploy.sh"] == ("true\n", 0o755)
    assert not [name for name in made if name.startswith("runs") or name == "README.md"]
    assert made["matrix/tiers.yml"][0].splitlines()[0] == "# yaml-language-server: $schema=../docs/schemas/tiers.json"
    assert {"docs/schemas/product.json", "docs/schemas/tiers.json", ".gitignore"} <= made.keys()
    (include,) = yaml.safe_load(made[".gitlab-ci.yml"][0])["include"]
    assert include["inputs"]["smoke_tier"] == "first"


SHIPPED = sorted(file.parts[-3] for file in (packaged_dir() / "examples").glob("*/matrix/product.yml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_an_example_that_ships_makes_a_valid_project(name: str, tmp_path: Path) -> None:
    project = NewProject(tmp_path / "new", "ours", name)
    files = project.files()
    write_new({project.directory / file: content for file, content in files.items()})
    assert project.tier in load_spec(project.directory / "matrix").tiers
    for file, (text, mode) in packaged.files(name).items():
        shipped = packaged_dir() / "examples" / name / file
        assert text.splitlines()[1:] == shipped.read_text(encoding="utf-8").splitlines()[1:]
        assert mode & 0o100 == shipped.stat().st_mode & 0o100


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("new", [True, False], ids=["in a project", "in the checkout"])
def test_each_file_of_an_example_fits_the_schema_that_it_names(name: str, new: bool, tmp_path: Path) -> None:
    root = tmp_path / "new" if new else packaged_dir() / "examples" / name
    if new:
        write_new({root / file: content for file, content in NewProject(root, "ours", name).files().items()})
    files = list((root / "matrix").glob("*.yml"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        schema = json.loads((file.parent / text.partition("$schema=")[2].partition("\n")[0]).read_text("utf-8"))
        assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []


def test_the_examples_that_the_help_names_ship() -> None:
    assert SHIPPED == ["kubespray", "operator", "script"]
    kinds = {"kubespray": "ansible", "operator": "declared", "script": "command"}
    assert {name: packaged.kind_of(name) for name in SHIPPED} == kinds
