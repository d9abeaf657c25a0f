"""Nothing is searched for garbage while something asks for that, and the search goes on afterwards."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from harness.startup import OFF, unplugged, unsearched


def _fail() -> None:
    raise LookupError(str(gc.isenabled()))


def test_nothing_is_searched_meanwhile_and_what_fails_leaves_the_search_on() -> None:
    assert gc.isenabled()
    with pytest.raises(LookupError, match="False"), unsearched():
        _fail()
    assert gc.isenabled()


def test_the_inner_one_of_two_leaves_the_search_off() -> None:
    with unsearched():
        with unsearched():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


PROGRAM = """
import sys
from harness.startup import unplugged
from pydantic import BaseModel, create_model
from pydantic.plugin import _loader
with unplugged():
    create_model("One", x=(int, 1))(x=2)
looked = [_loader._plugins is not None]
create_model("Two", x=(int, 1))(x=2)
print(*looked, _loader._plugins is not None)
"""


def test_no_plugins_are_looked_for_meanwhile_and_they_are_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_what_programs_inherit_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OFF, raising=False)
    with pytest.raises(LookupError), unplugged():
        raise LookupError(os.environ[OFF])
    assert OFF not in os.environ


def test_a_choice_of_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFF, "logfire-plugin")
    with unplugged():
        assert os.environ[OFF] == "logfire-plugin"
    assert os.environ[OFF] == "logfire-plugin"
