"""The ways to make a cluster slow: their data, and what counts as named."""

from __future__ import annotations

import subprocess

import pytest

from harness.validate.performance.figures import KINDS
from tests.slowness.slow import Slowness, load, named, script

SAID = (
    "slower: Pod network, round trip (cp-0 -> w-0): 10.2 ms, 80.00 times the usual 0.128 ms (median of 11 runs; noise "
    "up to 1.31); over the SLO of 5 s: Pod start, p99 (w-0) 6 s; 12 figures compared"
)


@pytest.mark.parametrize("slowness", load(), ids=lambda one: one.id)
def test_commands_are_shell_and_names_are_of_figures(slowness: Slowness) -> None:
    for commands in (*slowness.ways.values(), slowness.undo):
        subprocess.run(["/bin/sh", "-n"], input=script(commands), text=True, check=True)
    labels = [kind.label for kind in KINDS.values()]
    assert any(slowness.names[0] in label for label in labels)


def test_ids_are_unique() -> None:
    ids = [one.id for one in load()]
    assert len(ids) == len(set(ids))


def test_only_what_is_slower_counts_as_named() -> None:
    delay = next(one for one in load() if one.id == "delay")
    assert named(delay, SAID).startswith("Pod network, round trip (cp-0 -> w-0)")
    assert named(delay.model_copy(update={"names": ("Pod start", "w-0")}), SAID) == ""
    assert named(delay, "12 figures compared") == ""
