"""The committed JSON Schemas are those of the models, and the files name them."""

from __future__ import annotations

import pytest

from harness.cli.settings import schemas
from harness.paths import project_dir
from harness.spec.loader import FILES


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_committed_schema_is_current(name: str) -> None:
    committed = (project_dir() / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    assert committed == schemas()[name], "run `vmatrix schema` and commit"


@pytest.mark.parametrize("file", [*FILES, "images.yml"])
def test_each_file_names_its_schema(file: str) -> None:
    first = (project_dir() / "matrix" / file).read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema=../docs/schemas/{file.removesuffix('.yml')}.json"
