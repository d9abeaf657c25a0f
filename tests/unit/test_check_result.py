"""A check's result as data: what equal failures share, how it is written and read, also as it was written before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.check_result import (
    CheckResult,
    Finding,
    FindingKind,
    because,
    causes,
    shortened,
    signature_of_text,
    telling,
)
from harness.model import Outcome

KINDS = list(FindingKind)
TEXTS = st.text(max_size=30)
FINDINGS = st.builds(Finding, TEXTS, TEXTS, TEXTS, st.sampled_from(KINDS), st.lists(TEXTS, max_size=2).map(tuple))


def wrong(where: str = "cp-0", expected: str = "state 'active'", observed: str = "'dead'", **more: Any) -> Finding:
    return Finding(where, expected, observed, **more)


def failed(*findings: Finding, **more: Any) -> CheckResult:
    fields: dict[str, Any] = {"claim": "all is well", "look": "the log", "command": "vmatrix login c cp-0", **more}
    return CheckResult("test_a", "nodes", Outcome.FAILED, 1.0, "deploy", blame="product", findings=findings, **fields)


def skipped(*findings: Finding) -> CheckResult:
    return CheckResult("test_a", "nodes", Outcome.NOT_RUN, 0.0, "deploy", findings=findings)


@given(FINDINGS)
def test_a_finding_is_the_same_after_it_was_written(finding: Finding) -> None:
    assert Finding.of(finding.fields()) == finding


@pytest.mark.parametrize(
    "check",
    [
        failed(wrong(), wrong("w-0", controls=("4.2.1",)), because(FindingKind.NOT_JUDGED, "it has no proxy")),
        failed(wrong(), infra="the infra cluster changed machines in the meantime: w-0"),
        failed(claim="", look="", command="", text="TimedOut: no answer\n  line"),
        failed(because(FindingKind.NOT_JUDGED, "unknown plugin"), look="", command=""),
        skipped(because(FindingKind.LEFT_OUT, "has no proxy")),
        skipped(Finding("", "CIS 1.2.1 (Anonymous)", "behind a wall", FindingKind.WAIVED, ("1.2.1",))),
        skipped(because(FindingKind.NOT_RUN, "the deployment failed")),
        CheckResult(
            "test_a", "nodes", Outcome.PASSED, 0.5, properties={"measured": "9 s", "figures": [["a", "", 1, 1]]}
        ),
    ],
    ids=lambda check: f"{check.outcome}-{len(check.findings)}-{check.detail[:12]}",
)
def test_a_result_is_the_same_after_it_was_written(check: CheckResult) -> None:
    assert CheckResult.of(check.event()) == check


OLD: tuple[tuple[dict[str, Any], FindingKind | None, str, str], ...] = (
    ({"outcome": "not-run", "detail": "not judged: unknown plugin"}, FindingKind.NOT_JUDGED, "unknown plugin", ""),
    ({"outcome": "not-run", "detail": "left out: we have none"}, FindingKind.LEFT_OUT, "we have none", ""),
    ({"outcome": "not-run", "detail": "not run: deploy failed"}, FindingKind.NOT_RUN, "deploy failed", ""),
    ({"outcome": "not-run", "detail": "skipped by the author"}, FindingKind.NOT_RUN, "skipped by the author", ""),
    ({"outcome": "failed", "detail": "a.py:1: in x\nE   Error: no\n"}, None, "", "Error: no"),
    ({"outcome": "passed", "properties": {"not_judged": ["the proxy: none"]}}, None, "the proxy: none", ""),
)


@pytest.mark.parametrize(("event", "kind", "reason", "headline"), OLD)
def test_results_from_before_findings_were_data_are_read(
    event: dict[str, Any], kind: FindingKind | None, reason: str, headline: str
) -> None:
    check = CheckResult.of({"name": "test_a", "suite": "nodes", "seconds": 1, **event})
    assert (check.kind, check.reason, check.headline) == (kind, reason, headline)
    assert check.detail == event.get("detail", "") or kind is not None
    assert [str(part) for part in check.parts] == event.get("properties", {}).get("not_judged", [])


def test_a_failure_says_everything_to_people() -> None:
    check = failed(wrong(), wrong("w-0"))
    assert check.detail.splitlines() == [
        "not true: all is well",
        "  - cp-0: expected state 'active'; saw 'dead'",
        "  - w-0: expected state 'active'; saw 'dead'",
        "look at: the log",
        "type:    vmatrix login c cp-0",
    ]
    assert check.headline == "cp-0: expected state 'active'; saw 'dead'; and 1 more"


SIGNATURES: tuple[tuple[CheckResult, CheckResult, bool], ...] = (
    (failed(wrong("cp-0")), failed(wrong("w-3")), True),  # on another machine
    (failed(wrong(observed="'dead'")), failed(wrong(observed="'failed'")), True),  # seen otherwise
    (failed(wrong(expected="version '1.36.3'")), failed(wrong(expected="version '1.35.4'")), True),  # of another cell
    (failed(wrong(), wrong("w-0")), failed(wrong()), True),  # on more machines
    (failed(wrong()), failed(wrong(expected="a socket of containerd")), False),
    (failed(wrong()), failed(wrong(), claim="nothing else listens"), False),
    (failed(wrong()), failed(claim="", text="TimedOut: 9 s"), False),
    (failed(claim="", text="TimedOut: 9 s"), failed(claim="", text="TimedOut: 10 s"), True),
    (failed(wrong()), failed(wrong(), infra="machines changed"), False),
)


@pytest.mark.parametrize(("check", "other", "equal"), SIGNATURES)
def test_a_signature_is_of_what_was_claimed_and_expected(
    check: CheckResult, other: CheckResult, *, equal: bool
) -> None:
    assert (check.signature == other.signature) is equal


def test_failures_of_one_cause_are_one_group_whatever_they_claim() -> None:
    dead = [failed(wrong()), failed(wrong(), claim="pods run"), failed(wrong("w-0"))]
    late = [failed(claim="", text=f"Unreachable: {n}.0.0.1:6443 refused") for n in range(29)]
    assert [len(others) for _, others in causes([*dead, *late])] == [1, 0, 28]


@given(st.text(max_size=400), st.integers(min_value=40, max_value=200))
def test_a_text_that_is_shortened_keeps_its_end(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most
    assert shortened(text, most)[-20:] == text[-20:]


SAME = (
    ("timed out after 180 s waiting for machine w-1 to exist", "timed out after 62 s waiting for machine w-0 to exist"),
    ("dial tcp 10.216.1.7:6443: refused", "dial tcp 10.3.200.14:443: refused"),
    ("pod coredns-7d4b9c8f6d-x2x9k at 2026-11-21T12:12:44.748Z", "pod coredns-66bc5c9577-kq7vr at 2026-11-20 02:10:01"),
    ("uid 0e38a1a2-93ee-4f5c-9a77-1d2f9b1e7c55 gone", "uid 7f38a1a2-03ee-4f5c-9a77-1d2f9b1e7c00 gone"),
    ("cannot read /var/lib/a/b.conf", "cannot read /root/x.log"),
    ("image sha256:" + "a1" * 32, "image sha256:" + "b2" * 32),
    ("want v1.36.3", "want v1.34.4"),
    ("E   AssertionError: 3 of 5 nodes\nmore", "AssertionError: 4 of 5 nodes\nother"),
    ("no room for k1363-d12-c1-rt-nf-c1w2-recov-m-b6837c", "no room for k1354-d13-c2-ro-nf-c1w1-fresh-m-673ca5"),
    ("\x1b[31mfatal\x1b[0m: 1", "fatal: 2"),
)  # fmt: skip


def of_line(text: str) -> str:
    return signature_of_text(telling(text))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_failures_have_equal_signatures(one: str, other: str) -> None:
    assert of_line(one) == of_line(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no answer from kubernetes.default", "no answer from example.default"),
        ("task [deploy : Start kubelet] failed", "task [deploy : Start etcd] failed"),
        ("connection refused", "connection reset"),
        ("pod coredns-7d4b9c8f6d-x2x9k is not ready", "pod metrics-server-7d4b9c8f6d-x2x9k is not ready"),
    ],
)
def test_different_failures_stay_different(one: str, other: str) -> None:
    assert of_line(one) != of_line(other)


@given(st.text(max_size=400))
def test_any_message_has_a_signature(message: str) -> None:
    assert len(signature_of_text(message)) < 2000


def test_a_long_message_is_normalised_in_time() -> None:
    began = datetime.now(UTC)
    for hostile in ("-" * 20_000, "a1" * 10_000, "1.1." * 5_000, "::" * 9_000, "/a" * 9_000, "k1-" + "a-" * 9_000):
        signature_of_text(hostile)
    assert datetime.now(UTC) - began < timedelta(seconds=5)
