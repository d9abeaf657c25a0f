"""The examples that ship with vmatrix, as the files of a new project: one source, so that they cannot differ."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from harness.paths import MATRIX, packaged_dir

EXAMPLES = "examples"
NOT_COPIED = ("runs", "README.md")  # what is of the example, and not of a project that begins with it
SCHEMA = re.compile(r"^(# yaml-language-server: \$schema=)\S*/(docs/schemas/\S+)$", re.MULTILINE)


def examples() -> tuple[str, ...]:
    """Return the names of the examples that are projects."""
    return tuple(sorted(file.parts[-3] for file in (packaged_dir() / EXAMPLES).glob(f"*/{MATRIX}/product.yml")))


def kind_of(name: str) -> str:
    """Return the kind of an example's product."""
    return str(_product(name).get("kind", "ansible"))


def tier_of(name: str) -> str:
    """Return an example's first tier."""
    file = packaged_dir() / EXAMPLES / name / MATRIX / "tiers.yml"
    return str(next(iter(yaml.safe_load(file.read_text(encoding="utf-8"))["tiers"])))


def files(name: str) -> dict[str, tuple[str, int]]:
    """Return the text and the mode of each file of an example, by its path in the project."""
    root = packaged_dir() / EXAMPLES / name
    found: dict[str, tuple[str, int]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        parts = path.relative_to(root).parts
        if parts[0] not in NOT_COPIED and "__pycache__" not in parts:
            text = SCHEMA.sub(r"\1../\2", path.read_text(encoding="utf-8"))
            found["/".join(parts)] = (text, 0o755 if path.stat().st_mode & 0o100 else 0o644)
    return found


def _product(name: str) -> Any:
    file: Path = packaged_dir() / EXAMPLES / name / MATRIX / "product.yml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))["product"]
