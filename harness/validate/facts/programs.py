"""What a machine's running programs are and obey, as on_node_programs.py told it; asked before and after a phase."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import InfraError
from harness.validate.facts.node import version_in

CLOCK_SECONDS = 2.0  # a process's start is told to the second, and so is the kernel's own
OK = 200


@dataclass(frozen=True)
class RunningProgram:
    """A running process: the version that its own file says, and when it began (seconds since the epoch)."""

    name: str
    version: str
    started: float


@dataclass(frozen=True)
class LoadedConfig:
    """What a program read from files when it began: `fresh` tells whether these are older than the process."""

    content: Any
    fresh: bool


@dataclass(frozen=True)
class RunningPrograms:
    """One machine's running programs.

    api_version: what its API server says at /version ("" where none runs), or why it did not.
    hosts: names by address, of /etc/hosts.  backends: haproxy's servers, address by name; None where none runs.
    containerd: its configuration as TOML tables.  kube_proxy: its configuration.
    lifetimes: seconds that each DNS server gives a name, by the server's address; 0 when it did not answer.
    """

    programs: tuple[RunningProgram, ...]
    api_version: str
    hosts: Mapping[str, tuple[str, ...]]
    backends: LoadedConfig | None
    containerd: LoadedConfig | None
    kube_proxy: Mapping[str, Any]
    lifetimes: Mapping[str, int]

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a program of which processes run, each once."""
        return tuple(sorted({program.version for program in self.programs if program.name == name}))


def parse(text: str) -> RunningPrograms:
    """Read what on_node_programs.py printed.

    Raises:
        InfraError: it is not that.
    """
    try:
        return _running(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise InfraError(
            f"what a machine runs cannot be read: {type(error).__name__}: {error}", detail=text[:500]
        ) from error


def _running(raw: Mapping[str, Any]) -> RunningPrograms:
    hosts: dict[str, tuple[str, ...]] = {}
    for address, *names in raw["hosts"]:
        hosts[address] = (*hosts.get(address, ()), *names)
    return RunningPrograms(
        programs=tuple(RunningProgram(p["name"], version_in(p["said"]), float(p["started"])) for p in raw["programs"]),
        api_version=_api_version(raw["api_version"]),
        hosts=hosts,
        backends=_obeyed(raw["haproxy"], lambda found: dict(found["servers"])),
        containerd=_obeyed(raw["containerd"], lambda found: tomllib.loads(found["config"])),
        kube_proxy=_configz(raw["kube_proxy"]),
        lifetimes={server: int(answer["seconds"]) for server, answer in raw["dns"].items()},
    )


def _obeyed(raw: Mapping[str, Any] | None, content: Any) -> LoadedConfig | None:
    if raw is None:
        return None
    return LoadedConfig(content(raw), float(raw["started"]) + CLOCK_SECONDS >= float(raw["changed"]))


def _api_version(answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return ""
    if answer["status"] != OK:
        return f"{answer['status']}: {answer['body'][:200]}"
    return str(json.loads(answer["body"])["gitVersion"]).removeprefix("v")


def _configz(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if answer["status"] != OK:
        return {}
    found: Mapping[str, Any] = json.loads(answer["body"])["kubeproxy.config.k8s.io"]
    return found
