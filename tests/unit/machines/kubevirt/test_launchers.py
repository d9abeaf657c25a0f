"""Launchers: which address counts, and what a container waits for or died of."""

from __future__ import annotations

from typing import Any

import pytest

from harness.machines.kubevirt.launchers import died_of, useless, waits_for

Json = dict[str, Any]


def ended(reason: str, code: int, message: str = "") -> Json:
    state = {"terminated": {"reason": reason, "exitCode": code, "message": message}}
    return {"containerStatuses": [{"name": "compute", "state": state}]}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.233.4.5", ""),
        ("fd00::5", ""),
        ("169.254.3.4", "link-local"),
        ("10.0.2.2", "masquerade"),
        ("127.0.0.1", "not an address"),
    ],
)
def test_addresses_that_nobody_reaches(address: str, why: str) -> None:
    assert (why in useless(address)) if why else useless(address) == ""


def test_what_containers_wait_for_and_died_of() -> None:
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]}
    assert waits_for({"status": waiting}) == "ErrImagePull: no such host"
    assert died_of({"status": ended("Error", 1, "panic: x\n")}) == "Error (exit code 1): panic: x"
    assert died_of({"status": ended("Completed", 0)}) == ""
    assert (waits_for(None), died_of(None)) == ("", "")
