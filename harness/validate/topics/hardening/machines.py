"""Hardened machines: permissions, TLS, anonymous requests and profiling; Secrets in etcd, and the audit log."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch, on_every
from harness.validate.topics.hardening.benchmark import against
from harness.validate.topics.hardening.facts import CP, ETCD, FILES, HEALTH, HIDDEN, NODE, HardeningFacts
from harness.validate.variables import KEY, SUITES, TLS

FactsByNode = Mapping[str, HardeningFacts]
OK, REFUSED = 200, 401
NO_PROFILE = (404, 405)
NOT_FOUND = 404
COMPLETE, READ = "ResponseComplete", "get"
OFFERED = {
    "old": "TLS 1.1 and older",
    "weak": "weak cipher suites of TLS 1.2",
    "strong": "strong cipher suites of TLS 1.2",
    "new": "TLS 1.3",
}
PROGRAMS = {
    "kube-apiserver 6443": CP,
    "kube-controller-manager 10257": CP,
    "kube-scheduler 10259": CP,
    "kubelet 10250": NODE,
    "etcd 2379": ETCD,
    "etcd 2380": ETCD,
}
PROFILED = {"kube-apiserver": "1.2.15", "kube-controller-manager": "1.3.2", "kube-scheduler": "1.4.1"}


def open_to_others(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return files with more permissions than they may have, files of others than root, and missing ones."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        for number, globs, allowed, group in FILES:
            there = facts.rights[number]
            if name in getattr(expected, group) and not there:
                yield from against(number, [Mismatch(f"{name} {globs[0]}", "a file", "none")])
            for path, (mode, owner, owning_group) in there.items():
                yield from against(number, _rights(f"{name} {path}", mode, (owner, owning_group), allowed))

    return on_every(expected.machines, facts_by_node, judge)


def _rights(where: str, mode: int, owner: tuple[int, int], allowed: int | str) -> Iterator[Mismatch]:
    if isinstance(allowed, str):
        if owner != (0, 0):
            yield Mismatch(where, "owner and group 0 (root)", f"{owner[0]}:{owner[1]}")
    elif mode & ~allowed:
        yield Mismatch(where, f"permissions {allowed:04o} or fewer", f"{mode:04o}")


def weak_listeners(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return listeners that accept older TLS or weaker cipher suites than asked for, or refuse others."""
    newest = expected.variables.get(TLS) == "VersionTLS13"
    acceptable = {"old": False, "weak": False, "strong": not newest, "new": True}
    if not newest and not expected.variables.get(SUITES):
        del acceptable["weak"]  # the cell leaves the choice to Go

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        for program, group in PROGRAMS.items():
            if name in getattr(expected, group) and program not in facts.listeners:
                yield from against("1.2.29 4.2.12", [Mismatch(f"{name} {program}", "a listener", "none")])
        for listener, became in facts.listeners.items():
            number = "4.2.12" if listener.startswith("kubelet") else "1.2.29"
            for offer, accepted in acceptable.items():
                outcome, detail = became[offer]
                if outcome != ("accepted" if accepted else "refused"):
                    verb = "accepts" if accepted else "refuses"
                    where = f"{name} {listener}"
                    yield from against(number, [Mismatch(where, f"{verb} {OFFERED[offer]}", f"{outcome} ({detail})")])

    return on_every(expected.machines, facts_by_node, judge)


def served_strangers(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what API servers tell strangers other than health, and health that they do not tell."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        for path in (*HEALTH, *HIDDEN):
            expected_status, status = OK if path in HEALTH else REFUSED, facts.strangers.get(path, 0)
            if status != expected_status:
                yield Mismatch(f"{name} GET {path} without credentials", str(expected_status), str(status))

    return list(against("1.2.1", on_every(expected.control_plane, facts_by_node, judge)))


def kubelets_for_strangers(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubelets that answer strangers."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        kubelet = facts.kubelet
        if kubelet is None:
            yield from against("4.2.1 4.2.2", [Mismatch(f"{name} kubelet", "a running kubelet", "none")])
            return
        for path, status in kubelet.strangers.items():
            if status != REFUSED:
                where = f"{name} kubelet GET {path} without credentials"
                yield from against("4.2.1 4.2.2", [Mismatch(where, str(REFUSED), str(status))])
        if kubelet.read_only:
            yield from against("4.2.4", [Mismatch(f"{name} kubelet", "no read-only port", "port 10255 is open")])

    return on_every(expected.nodes, facts_by_node, judge)


def unsigned_kubelets(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubelets that serve with a certificate that is not of the cluster, or not of their address."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        signer = facts.kubelet.unsigned if facts.kubelet is not None else "no kubelet runs"
        if signer:
            yield Mismatch(f"{name} kubelet", "a certificate of the cluster for its address", signer)

    return list(against("1.2.5 4.2.9 4.2.11", on_every(expected.nodes, facts_by_node, judge)))


def etcd_for_strangers(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return members of etcd that talk to clients without a certificate."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        for port, number in (("etcd 2379", "2.2"), ("etcd 2380", "2.5")):
            outcome, detail = facts.etcd_strangers.get(port, ("failed", "it does not run"))
            if outcome != "refused":
                mismatch = Mismatch(
                    f"{name} {port}", "to refuse a client without a certificate", f"{outcome} ({detail})"
                )
                yield from against(number, [mismatch])

    return on_every(expected.etcd, facts_by_node, judge)


def shown_profiles(facts_by_node: FactsByNode, kubelets: Mapping[str, int], expected: ExpectedGuest) -> list[Mismatch]:
    """Return programs that show their profiles to an admin.

    Args:
        kubelets: the status with which each node's kubelet answers.
    """

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        for program, number in PROFILED.items():
            status = facts.profiles.get(program, 0)
            if status not in NO_PROFILE:
                mismatch = Mismatch(f"{name} {program}", "404 for a profile", str(status))
                yield from against(number, [mismatch])

    def of_kubelet(name: str, status: int) -> Iterator[Mismatch]:
        if status not in NO_PROFILE:
            yield Mismatch(f"{name} kubelet", "404 or 405 for a profile", str(status))

    return [*on_every(expected.control_plane, facts_by_node, judge), *on_every(expected.nodes, kubelets, of_kubelet)]


def readable_secrets(facts_by_node: FactsByNode, made: str, expected: ExpectedGuest) -> list[Mismatch]:
    """Return Secrets that etcd holds as they are, or encrypted with another key than the cell's.

    Args:
        made: the key in etcd of the Secret that the check made, which has to be among them.
    """
    sealing = f"secretbox:v1:{key_name(str(expected.variables[KEY]))}"

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        if facts.stored is None or facts.stored.error:
            problem = facts.stored.error if facts.stored is not None else "no etcd runs"
            yield Mismatch(f"{name} etcd", "Secrets", problem)
            return
        if made not in facts.stored.sealed:
            yield Mismatch(f"{name} etcd", f"{made}, which was just made", "no such key")
        for key, sealed in sorted(facts.stored.sealed.items()):
            if sealed != sealing:
                yield Mismatch(f"{name} etcd {key}", f"encrypted by {sealing}", sealed or "not encrypted")
        for key in facts.stored.shown:
            yield Mismatch(f"{name} etcd {key}", "no readable content", "what was written into it")

    return list(against("1.2.27 1.2.28", on_every(expected.etcd, facts_by_node, judge)))


def key_name(secret: str) -> str:
    """Return the name that the playbooks give to a key."""
    return f"key-{hashlib.sha256(secret.encode()).hexdigest()[:10]}"


def unaudited(facts_by_node: FactsByNode, expected: ExpectedGuest) -> list[Mismatch]:
    """Return API servers whose audit log does not have the request that was just made, or has what a Secret holds."""

    def judge(name: str, facts: HardeningFacts) -> Iterator[Mismatch]:
        trail = facts.audited
        if trail is None:
            yield from against("1.2.16", [Mismatch(f"{name} API server", "a running API server", "none")])
            return
        where = f"{name} {trail.path or 'audit log'}"
        if trail.status != NOT_FOUND:
            yield from against("3.2.1", [Mismatch(f"{name} GET of no Secret", "404", str(trail.status))])
        there = [event for event in trail.events if event[1] == COMPLETE and event[2] == READ and event[3]]
        if not there:
            problem = f"{len(trail.events)} events of it" if trail.path else "no --audit-log-path"
            yield from against(
                "1.2.16 3.2.1 3.2.2", [Mismatch(where, "the request for a Secret and its user", problem)]
            )
        if trail.leaked:
            mismatch = Mismatch(where, "nothing of what is in a Secret", f"{trail.leaked} lines with it")
            yield from against("3.2.2", [mismatch])

    return on_every(expected.control_plane, facts_by_node, judge)


def encoded(marker: str) -> str:
    """Return a text as a Secret's `data` has it."""
    return base64.b64encode(marker.encode()).decode()
