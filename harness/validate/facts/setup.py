"""How a machine is set up around its programs, as on_node_setup.py prints it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from harness.validate.facts.node import HttpAnswer

Rule = tuple[str, str, int]  # a Service's address, its protocol, its port


@dataclass(frozen=True)
class MachineSetup:
    """One machine.

    api: what its API server answers to a stranger, by path; empty where none runs.
    resolvers: the name servers of /etc/resolv.conf.  search: its domains and options.
    resolved: addresses that programs get for machines' names.
    kubelets_api: what answers at the API's address that kubelet uses, and that address; None where no kubelet runs.
    cni: the pod network's files by name; None for one that is no JSON.  bridged: how much is on each bridge.
    rules: the Services that kube-proxy has rules for; None where no kube-proxy runs.
    images: digests by name.  kubelet: the settings in its file.
    drop_ins: files by unit.  limits: of kubelet and the runtime: program, file, value.
    registries: registries with a file for containerd.  servers: the URLs in each such file.
    registries_conf: what CRI-O's files for registries say, by path.
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


def setup_of(raw: Mapping[str, Any]) -> MachineSetup:
    """Read what on_node_setup.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    rules, api = raw["rules"], raw["kubelets_api"]
    return MachineSetup(
        api={path: HttpAnswer(int(a["status"]), a["body"]) for path, a in raw["api"].items()},
        resolvers=tuple(raw["resolvers"]),
        cni=raw["cni"],
        bridged={name: int(count) for name, count in raw["bridged"].items()},
        rules=None if rules is None else frozenset((address, name, int(port)) for address, name, port in rules),
        images=raw["images"],
        kubelet=yaml.safe_load(raw["kubelet"]) or {},
        drop_ins={unit: tuple(files) for unit, files in raw["drop_ins"].items()},
        registries=tuple(raw["registries"]),
        search=tuple(raw["search"]),
        resolved={name: tuple(addresses) for name, addresses in raw["resolved"].items()},
        kubelets_api=None if api is None else (api["server"], HttpAnswer(int(api["status"]), api["body"])),
        limits=tuple((program, path, value) for program, path, value in raw["limits"]),
        servers={path: tuple(urls) for path, urls in raw["servers"].items()},
        registries_conf={path: tomllib.loads(text) for path, text in raw["registries_conf"].items()},
    )
