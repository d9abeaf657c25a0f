"""The tutorials, from an empty folder to their ends, with an installed vmatrix on the embedded infrastructure."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package.conftest import CHECKOUT, Installed, outside
from tests.tutorial.page import parted, section
from tests.tutorial.reader import Reader

INSTANCE = "tutorial"
MINUTES = 15  # what the page promises, of a host that does nothing else
OWN_LOAD = 2.0  # of a cell and its checks, on each processor
LAST_STEP = "### 8. Delete it"
UP = "vmatrix infra up"  # the step that obtains artifacts where no cache has them


@pytest.fixture
def reader(installed: Installed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Reader]:
    """Return a reader in an empty folder; what has been started is gone afterwards."""

    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", file=sys.stderr)  # noqa: T201 - the page's own times

    path = f"{installed.prefix / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**outside(), "PATH": path, "VMATRIX_INFRA_NAME": INSTANCE, "COLUMNS": "100"}
    (tmp_path / "empty").mkdir()
    yield Reader(tmp_path / "empty", environment, tmp_path / "exported", tell)
    installed.vmatrix(f"infra down --name {INSTANCE}", cwd=tmp_path)


def read(name: str) -> str:
    """Return a page."""
    return (CHECKOUT / "docs" / name).read_text(encoding="utf-8")


def others() -> float:
    """Return by what this host is slower than one that does nothing else, as its load of the last 15 minutes tells."""
    return max(1.0, os.getloadavg()[2] / (OWN_LOAD * (os.cpu_count() or 1)))


def test_the_page_is_true(reader: Reader) -> None:
    wrong = reader.does(read("tutorial.md"))
    assert not wrong, "\n".join(wrong)
    assert list(reader.folder.glob("runs/*/summary.md")), "the reader has run cells"
    took = sum(seconds for line, seconds in reader.seconds.items() if line != UP)
    assert took < MINUTES * 60 * others(), f"the commands took {took:.0f} s"


def test_the_operators_pages_are_true_one_after_the_other(reader: Reader) -> None:
    """The page of day 2 goes on with the cluster of the tutorial, whose last step deletes it."""
    before, last = parted(section(read("operator.md"), "Tutorial"), LAST_STEP)
    wrong = [*reader.does(before), *reader.does(read("operator/day-2.md")), *reader.does(last)]
    assert not wrong, "\n".join(wrong)
    assert "server: https://" in (reader.folder / "guest.kubeconfig").read_text(encoding="utf-8")
