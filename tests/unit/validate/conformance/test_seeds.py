"""How orders of specs are compared, of which one goes into a list."""

from __future__ import annotations

from tests.bench.seeds import order_of, span

SAID = """
Running Suite: Kubernetes e2e suite
[sig-node] Pods should run [Conformance]
/go/pkg/mod/k8s.io/kubernetes@v1.36.3/test/e2e/common/node/pods.go:1
S [sig-node] Pods should be skipped [Conformance]
[sig-apps] Job should end [Conformance] [Slow] [sig-apps, Conformance, Slow]
  [sig-apps] Job should end [Conformance] [sig-apps, Conformance]
[sig-node] Pods should run [Conformance]
"""
JOB, POD = "[sig-apps] Job should end [Conformance]", "[sig-node] Pods should run [Conformance]"
SLOW = f"{JOB} [Slow]"


def test_specs_are_in_the_order_in_which_they_are_named_first() -> None:
    assert order_of(SAID, [JOB, POD, SLOW]) == [POD, SLOW, JOB]


def test_a_process_takes_the_next_spec_when_it_is_free() -> None:
    seconds = {"long": 10.0, "a": 4.0, "b": 4.0, "c": 2.0}
    assert span(["long", "a", "b", "c"], seconds, 2) == 10.0
    assert span(["a", "b", "c", "long"], seconds, 2) == 14.0
    assert span(["a", "unknown"], seconds, 2) == 4.0
