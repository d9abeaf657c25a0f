"""What tests of products share: a script that is a product, folders and a cache of the test's own, a small package."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import pytest

from harness.spec import product_files
from tests.unit.cell.product.phases import Phased

NAME = "pretended_ansible"


@pytest.fixture
def phased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phased:
    """A product of one script, and a cell."""
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))
    return Phased(tmp_path)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(product_files.VARIABLE, raising=False)
    return tmp_path / "cache" / "vmatrix" / "product"


def wheel(folder: Path, *programs: str, words: str = "true") -> Path:
    """Write a wheel that installs shell programs; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{NAME}-1.0-py3-none-any.whl"
    info = f"{NAME}-1.0.dist-info"
    content = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **{f"{NAME}-1.0.data/scripts/{program}": f"#!/bin/sh\n{words}\n" for program in programs},
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
        names = "".join(f"{name},,\n" for name in (*content, f"{info}/RECORD"))
        archive.writestr(f"{info}/RECORD", names)
    return file
