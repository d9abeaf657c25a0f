"""The whole state of machines, and what two of them differ in: what a reset has left behind, lost or changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import InfraError
from harness.validate.judge.mismatch import Mismatch, on_every
from harness.validate.remote.hosts import ON_NODE_STATE, ask_each
from harness.validate.remote.on_node_state import differences

State = dict[str, dict[str, str]]
KINDS = ("file", "mount", "link", "route", "firewall rule", "unit", "process", "control group", "kernel setting")
LOOK_SECONDS = 300  # it reads every file of the system, on a host that may have twenty times as much to do as it can
LISTED = 15  # differences of one machine that a message names


def gather_states(hosts: Mapping[str, Any]) -> dict[str, State]:
    """Ask every machine for its whole state, all at once.

    Raises:
        InfraError: a machine did not answer or answered nonsense.
    """
    return ask_each(hosts, dict.fromkeys(hosts, (ON_NODE_STATE,)), _read, seconds=LOOK_SECONDS)


def not_as_before(names: Sequence[str], before: Mapping[str, State], after: Mapping[str, State]) -> list[Mismatch]:
    """Return what is different on machines from what they were before their deployment."""

    def judge(name: str, now: State) -> list[Mismatch]:
        was = before.get(name)
        if was is None:
            return [Mismatch(name, "a record of the machine before its deployment", "none")]
        empty = [kind for kind in KINDS if not was.get(kind) or not now.get(kind)]
        found = [
            Mismatch(f"{name}, {kind}", "something to compare", "nothing") for kind in empty if kind != "firewall rule"
        ]
        told = differences(was, now)
        found += [Mismatch(name, "the state before the deployment", said) for said in told[:LISTED]]
        more = len(told) - LISTED
        return found + (
            [Mismatch(name, "the state before the deployment", f"{more} more differences")] if more > 0 else []
        )

    return on_every(names, after, judge)


def _read(text: str) -> State:
    try:
        found: State = json.loads(text)
    except ValueError as error:
        raise InfraError(f"a machine's state cannot be read: {error}", detail=text[:300]) from error
    return found
