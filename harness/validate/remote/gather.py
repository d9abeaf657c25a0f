"""What each machine of a guest reports: its facts, its running programs, its whole state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.spec.models import Timeouts
from harness.validate.facts.network_plugins import plugins
from harness.validate.facts.node import SERVICES, NodeFacts, facts_of
from harness.validate.facts.programs import RunningPrograms, programs_of
from harness.validate.remote.hosts import run_on_each

FACTS = Path(__file__).with_name("on_node_facts.py")
PROGRAMS = Path(__file__).with_name("on_node_programs.py")
STATE = Path(__file__).with_name("on_node_state.py")

MachineState = dict[str, dict[str, str]]  # by kind (file, mount, ...), then by name


def gather_facts(hosts: Mapping[str, Any], timeouts: Timeouts) -> dict[str, NodeFacts]:
    """Return every machine's facts.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    units = [*SERVICES, *(plugin.unit for plugin in plugins().values())]
    return run_on_each(hosts, FACTS, facts_of, timeouts, given={name: {"units": units} for name in hosts})


def gather_programs(
    hosts: Mapping[str, Any], given: Mapping[str, Any], timeouts: Timeouts
) -> dict[str, RunningPrograms]:
    """Return what every machine runs.

    Args:
        given: what on_node_programs.py takes, by machine.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    return run_on_each(hosts, PROGRAMS, programs_of, timeouts, given=given)


def gather_states(hosts: Mapping[str, Any], timeouts: Timeouts) -> dict[str, MachineState]:
    """Return the whole state of every machine.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    return run_on_each(hosts, STATE, dict, timeouts, seconds=timeouts.machine_state)
