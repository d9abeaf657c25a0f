"""Part of node_configuration.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.expected import CONTROL_PLANE_PROGRAMS, ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, differs, on_every, same_set, together, unjudged
from harness.validate.layout import absent

Facts = Mapping[str, NodeFacts]


MODES = {"Node", "RBAC"}  # of authorization; a webhook may be added


DEFAULTS = {"leader-elect": "true"}  # of flags that need not be given


ANY = object()  # some value, of a file that the product does not name


def wrong_flags(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the flags of running processes that are not what the cell asked for."""
    every = _wanted_flags(expected)
    found: list[Mismatch] = []
    for program in (*CONTROL_PLANE_PROGRAMS, "etcd", "kubelet"):
        said = (
            expected.leaves.kubelet.unit is not None if program == "kubelet" else expected.static(program) is not None
        )
        if not said and absent(facts, program):
            found.append(unjudged(f"the flags of {program}", "no process of that name runs"))
            del every[program]
    missing = [flag for flags in every.values() for flag, value in flags.items() if value == ""]
    found += [unjudged(f"--{flag}", "the cell's variables do not say what it should be") for flag in missing]

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        for program, flags in every.items():
            for process in seen.running(program):
                for flag, value in flags.items():
                    if value != "":
                        yield from _wrong_flag(f"{name} {program}", flag, value, process.flag(flag))

    seen_programs = {process.name for seen in facts.values() for process in seen.processes}
    judged = on_every(expected.machines, facts, judge)
    judged += same_set("the cluster", "running programs", every, seen_programs & set(every))
    return together(judged, _other_environment(facts, expected), found) if every else together(found)


def _wanted_flags(expected: ExpectedGuest) -> dict[str, dict[str, object]]:
    """Return the flags that programs must have; "" for what nobody says."""
    leaves = expected.leaves
    own = {"cluster-cidr": expected.pod_cidrs, "allocate-node-cidrs": "true"}
    return {
        "kube-apiserver": {
            "service-cluster-ip-range": expected.service_cidrs,
            "authorization-mode": MODES,
            "client-ca-file": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else ANY,
        },
        "kube-controller-manager": {
            # a plugin that nobody describes may give addresses to pods by itself
            **(own if expected.plugin is not None else {}),
            "service-cluster-ip-range": expected.service_cidrs,
            "use-service-account-credentials": "true",
        },
        "kube-scheduler": {"leader-elect": "true"},
        "etcd": {"client-cert-auth": "true", "peer-client-cert-auth": "true"},
        "kubelet": {"config": leaves.kubelet.config or ANY, "kubeconfig": leaves.kubelet.kubeconfig or ANY},
    }


def _wrong_flag(where: str, flag: str, wanted: object, seen: str | None) -> list[Mismatch]:
    if wanted is ANY:
        return [] if seen else [Mismatch(where, f"--{flag} with a value", repr(seen))]
    if isinstance(wanted, set):
        modes = set((seen or "").split(","))
        return (
            []
            if wanted <= modes <= wanted | {"Webhook"}
            else differs(where, f"--{flag}", ",".join(sorted(wanted)), seen)
        )
    value = seen if seen is not None else DEFAULTS.get(flag)
    return differs(where, f"--{flag}", wanted, value.lower() if wanted == "true" and value is not None else value)


def _other_environment(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running etcd has other variables than the product's file for it: it was not restarted."""
    file = expected.leaves.etcd.environment_file
    if file is None:
        return []

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        if not seen.environment:
            yield Mismatch(f"{name} {file}", "ETCD_* variables", repr(seen.environment))
            return
        for process in seen.running("etcd"):
            running = {key: process.settings.get(key) for key in seen.environment}
            for key, value in seen.environment.items():
                yield from differs(f"{name} etcd", f"{key} as in {file}", value, running[key])

    return on_every(expected.etcd, facts, judge)
