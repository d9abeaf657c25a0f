"""Nothing is searched for garbage while something asks for that, and the search goes on afterwards."""

from __future__ import annotations

import gc

import pytest

from harness.garbage import unsearched


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
