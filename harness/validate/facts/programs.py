"""The running programs of a machine and the configuration that they loaded, as on_node_programs.py prints them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.facts.node import version_in

CLOCK_SECONDS = 2.0  # the kernel reports its own start and that of a process in whole seconds
OK = 200


@dataclass(frozen=True)
class LoadedConfig:
    """What a program loaded from files when it started; `fresh` tells whether it started after they last changed."""

    content: Any
    fresh: bool


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
    hosts: names by address, of /etc/hosts or the product's file.
    backends: servers of the proxy before the API, address by name; None where none runs.  proxy: haproxy or nginx.
    containerd, crio: its configuration as TOML tables; None where it does not run.  kube_proxy: its configuration.
    lifetimes: the TTL (seconds) that each DNS server gives a name, by the server's address; 0 without an answer.
    config_version: of the form of containerd's file, as the file says; "" where there is none.
    shims: of containerd.  pinned: images that the runtime never removes; None where nothing could tell.
    """

    versions: Mapping[str, tuple[str, ...]]
    api_version: str
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
    """Read what on_node_programs.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    hosts: dict[str, tuple[str, ...]] = {}
    for address, *names in raw["hosts"]:
        hosts[address] = (*hosts.get(address, ()), *names)
    versions: dict[str, set[str]] = {}
    for program in raw["programs"]:
        versions.setdefault(program["name"], set()).add(version_in(program["said"]))
    return RunningPrograms(
        versions={name: tuple(sorted(found)) for name, found in versions.items()},
        api_version=_api_version(raw["api_version"]),
        hosts=hosts,
        backends=_loaded(raw["proxy"], lambda found: dict(found["servers"])),
        proxy=raw["proxy"]["kind"] if raw["proxy"] is not None else "",
        containerd=_loaded(raw["containerd"], lambda found: tomllib.loads(found["config"])),
        crio=_loaded(raw["crio"], lambda found: tomllib.loads(found["config"])),
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
        Shim(one["pod"], version_in(one["said"]), float(one["started"]) > began, int(one["children"]))
        for one in raw["shims"]
    )


def _loaded(raw: Mapping[str, Any] | None, content: Any) -> LoadedConfig | None:
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
