"""CIS Kubernetes Benchmark: flags of programs, settings of kubelets, and controls that a project waives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.spec.controls import Waiver, controls
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import value_at
from harness.validate.facts.node import NodeFacts, Process
from harness.validate.findings import Mismatch, on_every, waived


def against(numbers: str, mismatches: Iterable[Mismatch]) -> Iterator[Mismatch]:
    """Say which controls mismatches are against, by their numbers with blanks between."""
    for mismatch in mismatches:
        yield replace(mismatch, controls=tuple(numbers.split()))


def unwaived(mismatches: Iterable[Mismatch], waivers: Sequence[Waiver]) -> list[Mismatch]:
    """Return what is wrong; what is only against controls that the project waives is waived, for its reason."""
    reasons = {waiver.control: waiver.reason for waiver in waivers}
    findings: list[Mismatch] = []
    for mismatch in mismatches:
        if mismatch.controls and all(number in reasons for number in mismatch.controls):
            findings += [waived(n, controls()[n].title, reasons[n]) for n in mismatch.controls]
        else:
            findings.append(mismatch)
    return findings


Rule = tuple[str, Callable[[str | None], bool]]  # what is expected, in words, and whether a value is that
ABSENT: Rule = ("no such flag", lambda value: value is None)
GIVEN: Rule = ("a value", bool)
TRUE: Rule = ("true", lambda value: value == "true")
NOT_FALSE: Rule = ("true, or no such flag", lambda value: value in (None, "true"))
NOT_TRUE: Rule = ("false, or no such flag", lambda value: value in (None, "false"))
FALSE: Rule = ("false", lambda value: value == "false")
LOCAL: Rule = ("127.0.0.1", lambda value: value == "127.0.0.1")


def at_least(number: int) -> Rule:
    """Return the rule that a flag is a number of at least that."""
    return f"at least {number}", lambda value: value is not None and value.isdigit() and int(value) >= number


def names(word: str) -> Rule:
    """Return the rule that a list has a word."""
    return f"{word} in the list", lambda value: word in (value or "").split(",")


def lacks(word: str) -> Rule:
    """Return the rule that a list, if there is one, lacks a word."""
    return f"no {word} in the list", lambda value: word not in (value or "").split(",")


API, MANAGER, SCHEDULER, ETCD, KUBELET = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "etcd",
    "kubelet",
)
FLAGS: Sequence[tuple[str, str, str, Rule]] = (
    ("1.2.2", API, "token-auth-file", ABSENT),
    ("1.2.4", API, "kubelet-client-certificate", GIVEN),
    ("1.2.4", API, "kubelet-client-key", GIVEN),
    ("1.2.5", API, "kubelet-certificate-authority", GIVEN),
    ("1.2.6", API, "authorization-mode", lacks("AlwaysAllow")),
    ("1.2.7", API, "authorization-mode", names("Node")),
    ("1.2.8", API, "authorization-mode", names("RBAC")),
    ("1.2.10", API, "enable-admission-plugins", lacks("AlwaysAdmit")),
    ("1.2.12", API, "disable-admission-plugins", lacks("ServiceAccount")),
    ("1.2.13", API, "disable-admission-plugins", lacks("NamespaceLifecycle")),
    ("1.2.14", API, "enable-admission-plugins", names("NodeRestriction")),
    ("1.2.17", API, "audit-log-maxage", at_least(30)),
    ("1.2.18", API, "audit-log-maxbackup", at_least(10)),
    ("1.2.19", API, "audit-log-maxsize", at_least(100)),
    ("1.2.20", API, "request-timeout", ABSENT),  # the default, one minute
    ("1.2.21", API, "service-account-lookup", NOT_FALSE),
    ("1.2.22", API, "service-account-key-file", GIVEN),
    ("1.2.23", API, "etcd-certfile", GIVEN),
    ("1.2.23", API, "etcd-keyfile", GIVEN),
    ("1.2.24", API, "tls-cert-file", GIVEN),
    ("1.2.24", API, "tls-private-key-file", GIVEN),
    ("1.2.25", API, "client-ca-file", GIVEN),
    ("1.2.26", API, "etcd-cafile", GIVEN),
    ("1.2.30", API, "service-account-extend-token-expiration", FALSE),
    ("1.3.1", MANAGER, "terminated-pod-gc-threshold", at_least(1)),
    ("1.3.3", MANAGER, "use-service-account-credentials", TRUE),
    ("1.3.4", MANAGER, "service-account-private-key-file", GIVEN),
    ("1.3.5", MANAGER, "root-ca-file", GIVEN),
    ("1.3.6", MANAGER, "feature-gates", lacks("RotateKubeletServerCertificate=false")),
    ("1.3.7", MANAGER, "bind-address", LOCAL),
    ("1.4.2", SCHEDULER, "bind-address", LOCAL),
    ("2.1", ETCD, "cert-file", GIVEN),
    ("2.1", ETCD, "key-file", GIVEN),
    ("2.2", ETCD, "client-cert-auth", TRUE),
    ("2.3", ETCD, "auto-tls", NOT_TRUE),
    ("2.4", ETCD, "peer-cert-file", GIVEN),
    ("2.4", ETCD, "peer-key-file", GIVEN),
    ("2.5", ETCD, "peer-client-cert-auth", TRUE),
    ("2.6", ETCD, "peer-auto-tls", NOT_TRUE),
    ("4.2.7", KUBELET, "hostname-override", ABSENT),
)
# Settings of kubelets as they report them, what is expected in words, and whether a value is that.
SETTINGS: Sequence[tuple[str, str, str, Callable[[Any], bool]]] = (
    ("4.2.1", "authentication.anonymous.enabled", "False", lambda value: value is False),
    ("4.2.2", "authorization.mode", "Webhook", lambda value: value == "Webhook"),
    ("4.2.3", "authentication.x509.clientCAFile", "a file", bool),
    ("4.2.4", "readOnlyPort", "0", lambda value: not value),
    ("4.2.5", "streamingConnectionIdleTimeout", "a time", lambda value: value not in (None, "0s")),
    ("4.2.6", "makeIPTablesUtilChains", "True", lambda value: value is True),
    ("4.2.8", "eventRecordQPS", "a number above 0", lambda value: bool(value) and int(value) > 0),
    ("4.2.10", "rotateCertificates", "True", lambda value: value is True),
    ("4.2.13", "podPidsLimit", "a number above 0", lambda value: bool(value) and int(value) > 0),
    ("4.2.14", "seccompDefault", "True", lambda value: value is True),
)
GROUPS = {API: "control_plane", MANAGER: "control_plane", SCHEDULER: "control_plane", ETCD: "etcd", KUBELET: "nodes"}


def loose_flags(facts: Mapping[str, NodeFacts], expected: ExpectedGuest) -> list[Mismatch]:
    """Return flags that are not as the benchmark asks."""

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        for number, program, flag, rule in FLAGS:
            if name not in getattr(expected, GROUPS[program]):
                continue
            processes = node.running(program)
            if not processes:
                yield from against(number, [Mismatch(f"{name} {program}", "a process", "none")])
            for process in processes:
                yield from against(number, _flag(f"{name} {program}", process, flag, rule))

    return on_every(expected.machines, facts, judge)


def _flag(where: str, process: Process, flag: str, rule: Rule) -> Iterator[Mismatch]:
    value = process.flag(flag)
    if not rule[1](value):
        yield Mismatch(where, f"--{flag}: {rule[0]}", "no such flag" if value is None else f"--{flag}={value}")


def loose_kubelets(
    settings: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return settings of running kubelets that are not as the benchmark asks.

    Args:
        settings: the configuration that each reports, by node.  silent: why others do not.
    """

    def judge(name: str, running: Mapping[str, Any]) -> Iterator[Mismatch]:
        for number, path, words, right in SETTINGS:
            value = value_at(running, path)
            if not right(value):
                yield from against(number, [Mismatch(f"{name} kubelet", f"{path}: {words}", repr(value))])

    mismatches = [Mismatch(f"{name} kubelet", "its configuration", why) for name, why in silent.items()]
    asked = tuple(name for name in expected.nodes if name not in silent)
    return mismatches + (on_every(asked, settings, judge) if asked else [])
