"""Wheels: only what they themselves say stays, and the lock is what the project asks for."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.artifacts import catalogue
from harness.artifacts.catalogue import HERE, LayeredImage
from harness.artifacts.own import wheels
from harness.errors import BadInput, InfraError
from tests.unit.pages import ROOT

LOCK = HERE / "python-3.13.txt"


def locked(lock: Path = LOCK) -> dict[str, tuple[str, int]]:
    """Return the version of every package of a lock, and how many hashes it has."""
    text = "\n".join(line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    pins = re.findall(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", text, re.MULTILINE)
    assert "".join(f"{name}=={version}{hashes}\n" for name, version, hashes in pins).strip() == text.strip()
    return {name: (version, hashes.count("--hash")) for name, version, hashes in pins}


def asked() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in project["dependencies"]]


def unfit(pins: dict[str, tuple[str, int]]) -> list[str]:
    """Return what the project asks for that a lock does not have, or in a version that does not do."""
    versions = {canonicalize_name(name): version for name, (version, _) in pins.items()}
    missing = {str(one): versions.get(canonicalize_name(one.name), "") for one in asked()}
    return [one for one, version in missing.items() if not version or version not in Requirement(one).specifier]


def test_the_lock_has_what_the_project_asks_for_each_with_its_hashes() -> None:
    pins = locked()
    assert unfit(pins) == []
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


def test_a_lock_that_does_not_fit_is_found() -> None:
    pins = locked()
    del pins["tenacity"]
    pins["ansible-core"] = ("2.17.0", 1)
    assert unfit(pins) == ["ansible-core<2.22,>=2.18", "tenacity>=9.0"]


def test_the_image_has_the_python_of_its_lock() -> None:
    image = catalogue.load().image("vmatrix")
    assert isinstance(image, LayeredImage)
    assert HERE / image.python.lock == LOCK
    assert image.python.version in image.python.lock


def installed(site: Path) -> None:
    info = site / "tool-1.dist-info"
    info.mkdir(parents=True)
    (site / "bin").mkdir()
    (site / "bin" / "tool").write_text("#!/home/me/python\n")
    (site / "tool.py").write_text("")
    (info / "INSTALLER").write_text("uv")
    (info / "entry_points.txt").write_text("[console_scripts]\ntool = tool:Main.run\nTwo=tool:two [extra]\n")
    (info / "RECORD").write_text(
        "tool.py,sha256=x,0\n../../bin/tool,sha256=y,3\nbin/tool,,\ntool-1.dist-info/INSTALLER,,\n"
    )


def test_what_tells_of_the_installer_goes(tmp_path: Path) -> None:
    installed(tmp_path)
    wheels.clean(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["tool-1.dist-info/RECORD", "tool-1.dist-info/entry_points.txt", "tool.py"]
    assert (tmp_path / "tool-1.dist-info" / "RECORD").read_text() == "tool.py,sha256=x,0\n"


def test_commands_are_those_that_packages_declare(tmp_path: Path) -> None:
    installed(tmp_path / "site")
    wheels.scripts(tmp_path / "site", tmp_path / "bin")
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == ["Two", "tool"]
    text = (tmp_path / "bin" / "tool").read_text()
    assert text.startswith("#!/usr/local/bin/python3\n")
    assert "from tool import Main\n\nsys.exit(Main.run())" in text
    (tmp_path / "site" / "tool.py").write_text("class Main:\n    @staticmethod\n    def run():\n        return 7\n")
    done = subprocess.run([sys.executable, tmp_path / "bin" / "tool"], env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 7


def test_without_an_installer_one_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name, path="": None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BadInput, match="needs uv or pip"):
        wheels.install(LOCK, "3.13", tmp_path / "site", tmp_path / "log", 60)


def test_a_lock_without_hashes_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("tenacity==9.2.1\n")
    with pytest.raises(InfraError, match="Python packages could not be downloaded") as raised:
        wheels.install(tmp_path / "lock.txt", "3.13", tmp_path / "site", tmp_path / "log", 60)
    assert "hash" in raised.value.detail.lower()
    assert not list((tmp_path / "site").glob("tenacity*"))
