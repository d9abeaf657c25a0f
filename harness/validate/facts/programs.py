"""Running programs of a machine and their settings, and what is set up around them (machine/programs.py, setup.py)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from harness.validate.facts.node import HttpAnswer, version_in

CLOCK_SECONDS = 2.0  # the kernel reports its own start and that of a process in whole seconds
OK = 200


@dataclass(frozen=True)
class LoadedConfig:
    """What a program loaded from files when it started; `fresh` tells whether it started after they last changed.

    usual: what it would have without any file; None where it does not tell.
    """

    content: Any
    fresh: bool
    usual: Any = None


@dataclass(frozen=True)
class Shim:
    """What runs the containers of one pod, under containerd.

    pod: its sandbox's id.  version: of its file.  later: whether it started after the containerd that runs now.
    children: how many processes it is the parent of: the pause container and the others.
    """

    pod: str
    version: str
    later: bool
    children: int


@dataclass(frozen=True)
class RunningPrograms:
    """One machine's running programs.

    versions: by program, each version that the files of its processes report, once.
    api_version: what its API server reports at /version ("" where none runs), or why it did not.
    api_emulates: the minor version of which that one serves the API; "" where none runs, or says.
    hosts: names by address, of /etc/hosts or the product's file.
    backends: servers of the proxy before the API, address by name; None where none runs.  proxy: haproxy or nginx.
    containerd, crio: its configuration as TOML tables; None where it does not run.  kube_proxy: its configuration.
    lifetimes: the TTL (seconds) that each DNS server gives a name, by the server's address; 0 without an answer.
    config_version: of the form of containerd's file, as the file says; "" where there is none.
    shims: of containerd.  pinned: images that the runtime never removes; None where nothing could tell.
    """

    versions: Mapping[str, tuple[str, ...]]
    api_version: str
    api_emulates: str
    hosts: Mapping[str, tuple[str, ...]]
    backends: LoadedConfig | None
    proxy: str
    containerd: LoadedConfig | None
    crio: LoadedConfig | None
    kube_proxy: Mapping[str, Any]
    lifetimes: Mapping[str, int]
    config_version: str
    shims: tuple[Shim, ...]
    pinned: frozenset[str] | None


def programs_of(raw: Mapping[str, Any]) -> RunningPrograms:
    """Read what machine/programs.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    hosts: dict[str, tuple[str, ...]] = {}
    for address, *names in raw["hosts"]:
        hosts[address] = (*hosts.get(address, ()), *names)
    versions: dict[str, set[str]] = {}
    for program in raw["programs"]:
        versions.setdefault(program["name"], set()).add(version_in(program["said"]))
    return RunningPrograms(
        versions={name: tuple(sorted(versions_of_name)) for name, versions_of_name in versions.items()},
        api_version=_api_version(raw["api_version"]),
        api_emulates=_api_emulates(raw["api_version"]),
        hosts=hosts,
        backends=_loaded(raw["proxy"], lambda state: dict(state["servers"])),
        proxy=raw["proxy"]["kind"] if raw["proxy"] is not None else "",
        containerd=_loaded(raw["containerd"], lambda state: tomllib.loads(state["config"])),
        crio=_loaded(raw["crio"], lambda state: tomllib.loads(state["config"])),
        kube_proxy=_configz(raw["kube_proxy"]),
        lifetimes={server: int(answer["seconds"]) for server, answer in raw["dns"].items()},
        config_version=raw["containerd"]["file_version"] if raw["containerd"] is not None else "",
        shims=_shims(raw),
        pinned=None if raw["pinned"] is None else frozenset(raw["pinned"]),
    )


def _shims(raw: Mapping[str, Any]) -> tuple[Shim, ...]:
    if raw["containerd"] is None:
        return ()
    began = float(raw["containerd"]["started"]) + CLOCK_SECONDS
    return tuple(
        Shim(shim["pod"], version_in(shim["said"]), float(shim["started"]) > began, int(shim["children"]))
        for shim in raw["shims"]
    )


def _loaded(raw: Mapping[str, Any] | None, content: Any) -> LoadedConfig | None:
    if raw is None:
        return None
    usual = _defaults(raw.get("default", ""))
    return LoadedConfig(content(raw), float(raw["started"]) + CLOCK_SECONDS >= float(raw["changed"]), usual)


def _defaults(text: str) -> Mapping[str, Any] | None:
    """Return the settings that a program prints as its defaults, None where it prints none that can be read."""
    try:
        return tomllib.loads(text) or None
    except tomllib.TOMLDecodeError:
        return None


def _api_version(answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return ""
    if answer["status"] != OK:
        return f"{answer['status']}: {answer['body'][:200]}"
    return str(json.loads(answer["body"])["gitVersion"]).removeprefix("v")


def _api_emulates(answer: Mapping[str, Any] | None) -> str:
    if answer is None or answer["status"] != OK:
        return ""
    version = json.loads(answer["body"])
    return ".".join(str(version[key]) for key in ("emulationMajor", "emulationMinor") if key in version)


def _configz(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if answer["status"] != OK:
        return {}
    configuration: Mapping[str, Any] = json.loads(answer["body"])["kubeproxy.config.k8s.io"]
    return configuration


Rule = tuple[str, str, int]  # a Service's address, its protocol, its port


@dataclass(frozen=True)
class UnitSettings:
    """A service: the properties that its unit sets, as `systemctl show` prints them, and what became of it.

    limits: those of processes, by their names there.  restarts: how often systemd restarted it by itself since somebody
    started it.  reload: whether its files are newer than what systemd has read.
    """

    settings: Mapping[str, str]
    limits: Mapping[str, str]
    restarts: int
    reload: bool


@dataclass(frozen=True)
class ProcessLimits:
    """What limits a process.

    limits: soft and hard one, by the names in /proc/PID/limits without "Max".  oom: its score for the kernel that
    chooses whom to kill.  state: T for one that is stopped.  cpus: the processors that it may run on.
    """

    limits: Mapping[str, tuple[str, str]]
    oom: int
    nice: int
    state: str
    cpus: str


@dataclass(frozen=True)
class MachineSetup:
    """One machine.

    api: what its API server answers to a stranger, by path; empty where none runs.
    resolvers: the name servers of /etc/resolv.conf.  search: its domains and options.
    resolved: addresses that programs get for machines' names.
    kubelets_api: what answers at the API's address that kubelet uses, and that address; None where no kubelet runs.
    cni: the pod network's files by name; None for one that is not JSON.  bridged: how much is on each bridge.
    rules: the Services that kube-proxy has rules for; None where no kube-proxy runs.
    images: digests by name.  kubelet: the settings in its file.  unread: why that cannot be read, "" where it can.
    drop_ins: files by unit.  limits: of kubelet and the runtime: program, file, value.
    registries: registries with a file for containerd.  servers: the URLs in each such file.
    registries_conf: what CRI-O's files for registries say, by path.
    units: the cluster's services.  processes: their main processes by unit, those of the cluster's programs by name and
    id, and the machine's first one as "1".
    """

    api: Mapping[str, HttpAnswer]
    resolvers: tuple[str, ...]
    cni: Mapping[str, Any]
    bridged: Mapping[str, int]
    rules: frozenset[Rule] | None
    images: Mapping[str, str]
    kubelet: Mapping[str, Any]
    drop_ins: Mapping[str, tuple[str, ...]]
    registries: tuple[str, ...]
    search: tuple[str, ...]
    resolved: Mapping[str, tuple[str, ...]]
    kubelets_api: tuple[str, HttpAnswer] | None
    limits: tuple[tuple[str, str, str], ...]
    servers: Mapping[str, tuple[str, ...]]
    registries_conf: Mapping[str, Mapping[str, Any]]
    units: Mapping[str, UnitSettings]
    processes: Mapping[str, ProcessLimits]
    unread: str = ""


def setup_of(raw: Mapping[str, Any]) -> MachineSetup:
    """Read what machine/setup.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    rules, api = raw["rules"], raw["kubelets_api"]
    kubelet, unread = _yaml_settings(raw["kubelet"])
    return MachineSetup(
        api={path: HttpAnswer(int(a["status"]), a["body"]) for path, a in raw["api"].items()},
        resolvers=tuple(raw["resolvers"]),
        cni=raw["cni"],
        bridged={name: int(count) for name, count in raw["bridged"].items()},
        rules=None if rules is None else frozenset((address, name, int(port)) for address, name, port in rules),
        images=raw["images"],
        kubelet=kubelet,
        unread=unread,
        drop_ins={unit: tuple(files) for unit, files in raw["drop_ins"].items()},
        registries=tuple(raw["registries"]),
        search=tuple(raw["search"]),
        resolved={name: tuple(addresses) for name, addresses in raw["resolved"].items()},
        kubelets_api=None if api is None else (api["server"], HttpAnswer(int(api["status"]), api["body"])),
        limits=tuple((program, path, value) for program, path, value in raw["limits"]),
        servers={path: tuple(urls) for path, urls in raw["servers"].items()},
        registries_conf={path: tomllib.loads(text) for path, text in raw["registries_conf"].items()},
        units={
            name: UnitSettings(unit["settings"], unit["limits"], int(unit["restarts"]), bool(unit["reload"]))
            for name, unit in raw["units"].items()
        },
        processes=_limits(raw["processes"]["pids"], raw["processes"]["seen"]),
    )


def _yaml_settings(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the settings in a file, and why it cannot be read: that is a finding and not the machine's fault."""
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        return {}, f"it is not YAML: {' '.join(str(error).split())[:200]}"
    return (content, "") if isinstance(content, dict) else ({}, "it is not a file of settings")


def _limits(pids: Mapping[str, int], limits: Mapping[str, Mapping[str, Any]]) -> dict[str, ProcessLimits]:
    """Return what limits processes, by their names; one that has ended meanwhile is left out."""
    return {
        name: ProcessLimits(
            {key: (soft, hard) for key, (soft, hard) in limits[str(pid)]["limits"].items()},
            *(limits[str(pid)][key] for key in ("oom", "nice", "state", "cpus")),
        )
        for name, pid in {"1": 1, **pids}.items()
        if str(pid) in limits
    }
