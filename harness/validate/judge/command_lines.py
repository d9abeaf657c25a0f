"""Whole command lines: every flag of a program is kubeadm's, the product's or the cell's, and has that value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.urls import in_url, joined
from harness.validate.facts.authority import external_flags
from harness.validate.facts.command_lines import ANY, KUBEADM, MAY_LACK, MINORS, OF_A_MINOR, OF_THE_CELL
from harness.validate.facts.customised import customised_flags
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.hardening import hardened_flags
from harness.validate.facts.node import NodeFacts, Process
from harness.validate.judge.finding import unjudged
from harness.validate.judge.mismatch import Mismatch, on_every

Facts = Mapping[str, NodeFacts]
NOT_SAID = "product.yml does not say which flags the product adds (flags)"


def strange_flags(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return flags that nobody asked for, those that are missing, and those with another value."""
    own = expected.leaves.flags
    if own is None or expected.leaves.kubeadm is None:
        return [unjudged("whole command lines", NOT_SAID, whole=True)]
    if expected.minor not in MINORS:
        why = f"kubeadm's flags are known for Kubernetes {MINORS[0]} to {MINORS[-1]}, and this is {expected.minor}"
        return [unjudged("whole command lines", why, whole=True)]
    programs = (*KUBEADM, *(name for name in own if name not in KUBEADM))

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        for program in programs:
            for process in seen.running(program):
                yield from _compare(f"{name} {program}", wanted_flags(program, name, expected), process)

    return on_every(expected.machines, facts, judge)


def wanted_flags(program: str, machine: str, expected: ExpectedGuest) -> dict[str, str]:
    """Return the flags of a program on a machine."""
    given = expected.variables.get(OF_THE_CELL.get(program, ""), None) or {}
    of_minor = OF_A_MINOR.get(expected.minor, {}).get(program, {})
    wanted = {**KUBEADM.get(program, {}), **of_minor, **(expected.leaves.flags or {}).get(program, {})}
    wanted |= {**hardened_flags(program, expected.variables), **customised_flags(program, expected.variables)}
    wanted |= external_flags(program, expected.variables)
    wanted |= {flag: str(value).lower() if isinstance(value, bool) else str(value) for flag, value in given.items()}
    words = {
        "{address}": expected.addresses[machine],
        "{host}": in_url(expected.addresses[machine]),
        "{loopback}": in_url(expected.loopback),
        "{addresses}": ",".join(expected.addresses_of(machine)),
        "{name}": machine,
        "{certificates}": expected.leaves.certificates or "",
        "{domain}": expected.dns_domain,
        "{pod_cidr}": expected.pod_cidrs,
        "{service_cidr}": expected.service_cidrs,
        "{etcd}": _members(expected),
    }
    for word, value in words.items():
        wanted = {flag: text.replace(word, value) for flag, text in wanted.items()}
    return wanted


def flags_of(process: Process) -> dict[str, str]:
    """Return the flags of a command line by name, without their dashes; a flag without a value is "true"."""
    found: dict[str, str] = {}
    for word in process.argv[1:]:
        name, equal, value = word.lstrip("-").partition("=")
        found[name] = value if equal else "true"
    return found


def _members(expected: ExpectedGuest) -> str:
    if expected.stacked_etcd and expected.leaves.etcd.used == "own":
        return f"https://{joined(expected.loopback, 2379)}"
    return ",".join(sorted(f"https://{joined(expected.addresses[name], 2379)}" for name in expected.etcd))


def _compare(where: str, wanted: Mapping[str, str], process: Process) -> Iterator[Mismatch]:
    seen = flags_of(process)
    for flag in sorted({*wanted, *seen}):
        value, there = wanted.get(flag), seen.get(flag)
        if value is None:
            yield Mismatch(where, f"no flag --{flag}, for which nobody asked", f"--{flag}={there}")
        elif there is None and flag not in MAY_LACK:
            yield Mismatch(where, f"--{flag}={value}", "no such flag")
        elif there is not None and value != ANY and not _same(flag, value, there):
            yield Mismatch(where, f"--{flag}={value}", f"--{flag}={there}")


def _same(flag: str, wanted: str, seen: str) -> bool:
    if flag == "etcd-servers":  # any order leads to all of them
        return sorted(wanted.split(",")) == sorted(seen.split(","))
    return wanted == seen
