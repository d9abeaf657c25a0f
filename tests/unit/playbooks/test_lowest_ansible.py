"""The oldest ansible-core that pyproject.toml allows is the one that is tested, by `make test` and every night."""

from __future__ import annotations

import os
import re
from configparser import ConfigParser

from ansible.release import __version__ as ours

from tests.unit.pages import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ENVIRONMENTS = ("lowest", "smoke-lowest")


def allowed() -> str:
    """Return the oldest version that is allowed, with its patch."""
    (found,) = re.findall(r'"ansible-core>=([\d.]+),', PYPROJECT)
    return f"{found}.0" if found.count(".") == 1 else str(found)


def test_the_environments_have_the_oldest_version_that_is_allowed() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    assert tox.get("testenv:lowest", "deps") == f"ansible-core=={allowed()}"
    assert tox.get("testenv:smoke-lowest", "deps") == "{[testenv:lowest]deps}"
    assert re.search(r"-e \S*\blowest\b", (ROOT / "Makefile").read_text(encoding="utf-8"))


def test_such_an_environment_really_runs_that_version() -> None:
    here = os.environ.get("TOX_ENV_NAME", "")
    assert (ours == allowed()) is (here in ENVIRONMENTS), f"{here or 'this environment'} has ansible-core {ours}"
