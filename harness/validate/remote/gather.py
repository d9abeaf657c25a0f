"""What each machine of a guest reports: its facts, its running programs, its whole state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from harness.spec.models import Timeouts
from harness.validate.facts.authority import MachineAuthority, authority_of
from harness.validate.facts.customised import asked_volumes
from harness.validate.facts.customised_seen import CustomisedFacts, customised_of
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.files import MachineFiles, files_of
from harness.validate.facts.keys import MachineKeys, keys_of
from harness.validate.facts.network_plugins import plugins
from harness.validate.facts.node import NodeFacts, facts_of
from harness.validate.facts.packets import MachinePackets, packets_of
from harness.validate.facts.programs import RunningPrograms, programs_of
from harness.validate.facts.setup import MachineSetup, setup_of
from harness.validate.remote.hosts import MACHINE, run_on_each

FACTS = MACHINE / "node.py"
PROGRAMS = MACHINE / "programs.py"
FILES = MACHINE / "files.py"
SETUP = MACHINE / "setup.py"
PACKETS = MACHINE / "packets.py"
KEYS = MACHINE / "keys.py"
CUSTOMISED = MACHINE / "customised.py"
AUTHORITY = MACHINE / "external_ca.py"
DIALS = MACHINE / "dials.py"
STATE = MACHINE / "state.py"

JOURNAL = "systemd-journald.service"  # without which programs of the machine write no logs

MachineState = dict[str, dict[str, str]]  # by kind (file, mount, ...), then by name


def gather_facts(hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest) -> dict[str, NodeFacts]:
    """Return every machine's facts.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    given, called = asked_of_machines(expected), time.time()
    # the same moment for all: whoever had to wait for a turn only has its clock judged less strictly
    read = lambda raw: facts_of({**raw, "called": called, "answered": time.time()})  # noqa: E731
    return run_on_each(hosts, FACTS, read, timeouts, given=dict.fromkeys(hosts, given))


def asked_of_machines(expected: ExpectedGuest) -> dict[str, Any]:
    """Return what on_node_facts.py takes: which units to look at, and where the product's files are."""
    leaves, own = expected.leaves, [expected.plugin] if expected.plugin is not None else []
    units = {leaves.kubelet.unit, leaves.runtime_unit, leaves.local_api.unit, leaves.etcd.unit}
    units |= {JOURNAL, *(plugin.unit for plugin in [*plugins().values(), *own])}
    tools = {"kubectl": leaves.kubectl, "kubeadm": leaves.kubeadm}
    return {
        "units": sorted(unit for unit in units if unit is not None),
        "certificates": leaves.certificates or "",
        "manifests": leaves.control_plane.manifests or "",
        "cni_plugins": leaves.cni_plugins or "",
        "tools": {name: tool.path for name, tool in tools.items() if tool is not None and tool.path is not None},
        "environment_file": leaves.etcd.environment_file or "",
    }


def gather_files(hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest) -> dict[str, MachineFiles]:
    """Return every machine's files, listeners and next boot.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    given = {"certificates": expected.leaves.certificates or ""}
    return run_on_each(hosts, FILES, files_of, timeouts, given=dict.fromkeys(hosts, given))


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


def asked_of_programs(expected: ExpectedGuest, address: str = "127.0.0.1") -> dict[str, Any]:
    """Return what on_node_programs.py takes of a machine, without DNS servers.

    Args:
        address: whose name DNS servers are asked for.
    """
    leaves = expected.leaves
    return {
        "address": address,
        "hosts": leaves.host_names or "",
        "ca": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else "",
        "proxy": leaves.local_api.backends or "",
        "dns": [],
    }


def gather_setups(hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest) -> dict[str, MachineSetup]:
    """Return how every machine is set up around its programs.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    leaves, plugin = expected.leaves, expected.plugin
    units = (leaves.kubelet.unit, leaves.runtime_unit, leaves.local_api.unit, leaves.etcd.unit)
    given = {
        "ca": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else "",
        "units": [unit for unit in (*units, plugin.unit if plugin is not None else None) if unit is not None],
        "registries": str((leaves.runtime_settings or {}).get("config_path", "")),
        "names": expected.machines if leaves.host_names is not None else [],
    }
    return run_on_each(hosts, SETUP, setup_of, timeouts, given=dict.fromkeys(hosts, given))


def gather_packets(hosts: Mapping[str, Any], timeouts: Timeouts) -> dict[str, MachinePackets]:
    """Return what every machine does with packets.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    return run_on_each(hosts, PACKETS, packets_of, timeouts, given={name: {} for name in hosts})


def gather_keys(hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest) -> dict[str, MachineKeys]:
    """Return every machine's keys and kubeconfigs.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    given = {"certificates": expected.leaves.certificates or ""}
    return run_on_each(hosts, KEYS, keys_of, timeouts, given=dict.fromkeys(hosts, given))


def gather_customised(
    hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest
) -> dict[str, CustomisedFacts]:
    """Return what every control plane shows of a customised kubeadm.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    chosen = {name: hosts[name] for name in expected.control_plane}
    given = {"volumes": asked_volumes(expected.variables)}
    return run_on_each(chosen, CUSTOMISED, customised_of, timeouts, given=dict.fromkeys(chosen, given))


def gather_authorities(
    hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest
) -> dict[str, MachineAuthority]:
    """Return of every machine the keys of CAs that it has, and its certificates.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    given = {"certificates": expected.leaves.certificates or "/etc/kubernetes/pki", "places": []}
    return run_on_each(hosts, AUTHORITY, authority_of, timeouts, given=dict.fromkeys(hosts, given))


def gather_dials(hosts: Mapping[str, Any], given: Mapping[str, Any], timeouts: Timeouts) -> dict[str, list[list[Any]]]:
    """Return what machines themselves got: [kind, what was given..., why it failed].

    Args:
        given: what on_node_dials.py takes, by machine.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    chosen = {name: hosts[name] for name in given}
    return run_on_each(chosen, DIALS, list, timeouts, given=given)


def gather_states(
    hosts: Mapping[str, Any], timeouts: Timeouts, *, with_files: bool = True, with_starts: bool = False
) -> dict[str, MachineState]:
    """Return the whole state of every machine, on request without files, or with when services began.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    given = {name: {"files": with_files, "starts": with_starts} for name in hosts}
    return run_on_each(hosts, STATE, dict, timeouts, given=given, seconds=timeouts.machine_state)
