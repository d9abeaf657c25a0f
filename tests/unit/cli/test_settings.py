"""The committed JSON Schemas are those of the models; the files name them and fit them, as an editor sees it."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from harness import cli
from harness.cli import app
from harness.errors import BadInput
from harness.paths import packaged_dir, project_dir
from harness.spec.lines import read
from harness.spec.loader import FILES
from harness.spec.schemas import schemas
from tests.unit.spec.conftest import MATRIX
from tests.unit.spec.test_mistakes import KINDS


def validator(file: str) -> Draft202012Validator:
    """Return a validator of a file, by its committed schema."""
    schema = json.loads(
        (project_dir() / "docs" / "schemas" / file.replace(".yml", ".json")).read_text(encoding="utf-8")
    )
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def as_json(content: Any) -> Any:
    """Return YAML's data as JSON has it: an editor sees a date as the text that stands there."""
    if isinstance(content, dict):
        return {key: as_json(inner) for key, inner in content.items()}
    if isinstance(content, list):
        return [as_json(inner) for inner in content]
    return content.isoformat() if isinstance(content, date) else content


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_committed_schema_is_current(name: str) -> None:
    committed = (project_dir() / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    assert committed == schemas()[name], "run `vmatrix schema` and commit"


@pytest.mark.parametrize("file", FILES)
def test_each_file_names_its_schema(file: str) -> None:
    path = (project_dir() / "matrix" / file).resolve()
    lines = path.read_text(encoding="utf-8").splitlines()
    (named,) = (line for line in lines[:2] if line.startswith("# yaml-language-server: $schema="))
    schema = path.parent / named.partition("=")[2]
    assert schema.resolve() == project_dir() / "docs" / "schemas" / f"{file.removesuffix('.yml')}.json"


@pytest.mark.parametrize("file", FILES)
def test_each_file_fits_its_schema(file: str) -> None:
    document, problems = read(project_dir() / "matrix" / file)
    assert problems == []
    assert [error.message for error in validator(file).iter_errors(as_json(document.content))] == []


@pytest.mark.parametrize(
    "kind",
    [
        "an unknown key: the nearest at that place",
        "a missing key",
        "a text without quotes",
        "a text that cannot be",
        "an empty condition",
        "a condition of no known form: one message",
        "a number that cannot be",
    ],
)
def test_an_editor_sees_mistakes_of_form(kind: str, tmp_path: Path) -> None:
    file, old, new, _ = KINDS[kind]
    (tmp_path / file).write_text(MATRIX[file].replace(old, new, 1), encoding="utf-8")
    content = as_json(read(tmp_path / file)[0].content)
    assert list(validator(file).iter_errors(content)) != []


def test_every_page_that_ships_is_listed_and_printed() -> None:
    listed = CliRunner().invoke(app, ["docs"], catch_exceptions=False).stdout.splitlines()
    shipped = sorted((packaged_dir() / "docs").rglob("*.md"))
    assert len(listed) == len(shipped)
    for word in ("product", "docs/product.md", "operator/fields"):
        done = CliRunner().invoke(app, ["docs", word], catch_exceptions=False)
        name = word.removeprefix("docs/").removesuffix(".md")
        assert done.stdout == (packaged_dir() / "docs" / f"{name}.md").read_text(encoding="utf-8")
    raised = CliRunner().invoke(app, ["docs", "prodct"]).exception
    assert isinstance(raised, BadInput)
    assert raised.summary == "unknown page 'prodct'; did you mean 'product'?"


def test_an_error_that_names_a_page_says_how_to_print_it(capsys: pytest.CaptureFixture[str]) -> None:
    cli.show_error(BadInput("wrong (docs/product.md)", hint="see docs/operator/fields.md or https://x.org/docs/a.md"))
    said = capsys.readouterr().err
    assert "`vmatrix docs product` prints docs/product.md" in said
    assert "`vmatrix docs operator/fields` prints docs/operator/fields.md" in said
    assert "vmatrix docs a" not in said
