"""Moments of the recorded guest, before and after a phase: with another version, another setting, a machine more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.facts.node import facts_of
from harness.validate.facts.programs import RunningPrograms, programs_of
from harness.validate.phases.observation import Observation
from tests.unit.validate import guests
from tests.unit.validate.guests import Json

RECORDED_VERSION = "1.36.3"
PROGRAMS = {
    "cp-0": (
        "kubelet",
        "containerd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "etcd",
        "flanneld",
    ),
    "w-0": ("kubelet", "containerd", "kube-proxy", "flanneld", "coredns"),
}
OTHERS = {
    "etcd": "etcd Version: 3.6.8",
    "coredns": "CoreDNS-1.14.2",
    "containerd": "containerd v2.4.2",
    "flanneld": "v0.28.4",
}
COREFILE = ".:53 {\n    kubernetes cluster.local {\n       ttl 30\n    }\n    cache 30 {\n    }\n}\n"
PAUSE = "10.222.0.1:5000/pause:3.10.2"
NO_CHANGE: Callable[[Json], None] = lambda _: None  # noqa: E731


def raw_running(machine: str) -> Json:
    """Return what a machine of the recorded guest prints of its running programs."""
    config = "[plugins.'io.containerd.cri.v1.images']\nmax_concurrent_downloads = 3\n"
    found = [{"name": name, "said": OTHERS.get(name, f"Kubernetes v{RECORDED_VERSION}")} for name in PROGRAMS[machine]]
    answer = {"status": 200, "body": json.dumps({"gitVersion": f"v{RECORDED_VERSION}"})}
    return {
        "programs": found,
        "api_version": answer if machine == "cp-0" else None,
        "hosts": [["127.0.0.1", "localhost"], ["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"]],
        "proxy": {"kind": "haproxy", "servers": [["cp-0", "10.222.1.2:6443"]], "changed": 900.0, "started": 1000.0},
        "containerd": {"config": config, "changed": 900.0, "started": 1000.0, "file_version": "3"},
        "crio": None,
        "shims": [{"pod": "a1", "said": "  Version:  v2.4.2", "started": 1100.0, "children": 2}],
        "pinned": [PAUSE],
        "kube_proxy": {"status": 200, "body": json.dumps({"kubeproxy.config.k8s.io": {"mode": "nftables"}})},
        "dns": {"10.243.1.2": {"seconds": 30, "error": ""}},
    }


def moment(
    version: str = RECORDED_VERSION,
    *,
    facts: Callable[[Json], None] = NO_CHANGE,
    view: Callable[[Json], None] = NO_CHANGE,
    runs: Callable[[Json], None] = NO_CHANGE,
    of: str = "cp-0",
    corefile: str = COREFILE,
    max_pods: int = 110,
) -> Observation:
    """Return the recorded guest as if all of it had a version of Kubernetes, changed as given.

    Args:
        facts, runs: change what the machine `of` said.  view: changes the objects of the API.
    """

    def as_version(raw: Json) -> Json:
        found: Json = json.loads(json.dumps(raw).replace(RECORDED_VERSION, version))
        return found

    machines = {name: as_version(guests.raw_facts(name)) for name in PROGRAMS}
    running_ = {name: as_version(raw_running(name)) for name in PROGRAMS}
    objects = as_version(json.loads((Path(__file__).parent / "recorded" / "view.json").read_text(encoding="utf-8")))
    facts(machines[of])
    runs(running_[of])
    view(objects)
    return Observation(
        expected=expected(version),
        view=ClusterView(*(tuple(objects[kind]) for kind in ("nodes", "pods", "daemon_sets", "deployments"))),
        facts={name: facts_of(raw) for name, raw in machines.items()},
        running=running_and(running_),
        kubelets={name: {"maxPods": max_pods} for name in list(PROGRAMS)},
        coredns={"Corefile": corefile},
    )


def running_and(raw: Json) -> dict[str, RunningPrograms]:
    """Return what each machine printed, read."""
    return {name: programs_of(one) for name, one in raw.items()}


def expected(version: str) -> ExpectedGuest:
    """Return what the recorded guest must look like with a version of Kubernetes."""
    return replace(guests.expected(), kubernetes=version)
