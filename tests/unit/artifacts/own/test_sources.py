"""vmatrix's own files: what a wheel has and nothing else, and a digest that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import __version__
from harness.artifacts.own import sources

PYPROJECT = """\
[project]
dependencies = ["pytest>=8"]
scripts = {tool = "harness.cli:main"}
entry-points = {pytest11 = {plugin = "harness.plugin"}}
[tool.hatch.build.targets.wheel.force-include]
"matrix" = "harness/packaged/matrix"
"pyproject.toml" = "harness/packaged/pyproject.toml"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": PYPROJECT,
        ".gitignore": "# comment\nruns/\n*.log\n/build/\n",
        "harness/__init__.py": "",
        "harness/cli.py": "def main(): ...\n",
        "harness/__pycache__/cli.cpython-311.pyc": "stale",
        "harness/runs/left.yml": "of a run",
        "harness/build/job.py": "a package with the name of a folder of the checkout",
        "matrix/axes.yml": "axes: []\n",
        "matrix/own.log": "noise",
        "notes.md": "not in a wheel",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_checkout_gives_what_its_wheel_would_have(checkout: Path) -> None:
    found = sources.collect(checkout / "harness", checkout)
    assert sorted(found) == [
        "harness/__init__.py",
        "harness/build/job.py",
        "harness/cli.py",
        "harness/packaged/matrix/axes.yml",
        "harness/packaged/pyproject.toml",
    ]
    assert found["harness/packaged/matrix/axes.yml"] == checkout / "matrix" / "axes.yml"


def test_an_installed_package_gives_itself(checkout: Path) -> None:
    packaged = checkout / "harness" / "packaged"
    packaged.mkdir()
    (packaged / "pyproject.toml").write_text(PYPROJECT)
    assert sorted(sources.collect(checkout / "harness", packaged)) == [
        "harness/__init__.py",
        "harness/build/job.py",
        "harness/cli.py",
        "harness/packaged/pyproject.toml",
        "harness/runs/left.yml",  # nothing that git ignores is installed: the folder means what its name says
    ]


@pytest.mark.parametrize("changed", ["harness/cli.py", "matrix/axes.yml", "pyproject.toml"])
def test_the_digest_changes_with_every_file(checkout: Path, changed: str) -> None:
    def digest() -> str:
        return sources.digest(sources.collect(checkout / "harness", checkout))

    before = digest()
    (checkout / "notes.md").write_text("more of what is in no wheel")
    assert digest() == before
    (checkout / changed).write_text((checkout / changed).read_text() + "# more\n")
    assert digest() != before


def test_what_can_be_executed_counts(checkout: Path) -> None:
    found = sources.collect(checkout / "harness", checkout)
    before = sources.digest(found)
    (checkout / "harness" / "cli.py").chmod(0o755)
    assert sources.digest(found) != before


def test_an_installation_is_described_as_pip_does(checkout: Path) -> None:
    told = sources.metadata(checkout)
    assert f"Name: vmatrix\nVersion: {__version__}\nRequires-Dist: pytest>=8\n" in told["METADATA"]
    assert "[console_scripts]\ntool = harness.cli:main\n" in told["entry_points.txt"]
    assert "[pytest11]\nplugin = harness.plugin\n" in told["entry_points.txt"]


def test_the_tag_names_the_version_and_all_that_the_image_is_made_of() -> None:
    tag = sources.tag("lock", "amd64")
    assert tag.startswith(f"{__version__}-")
    assert sources.tag("lock", "amd64") == tag
    assert sources.tag("other lock", "amd64") != tag
