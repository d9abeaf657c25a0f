"""Every machine has the versions that the cell asked for, on disk and running."""

from __future__ import annotations

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge import nodes
from harness.validate.judge.mismatch import require


def test_installed_programs_have_the_expected_versions(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        nodes.wrong_binaries(facts, expected),
        claim="every program has the version of the cell",
        look="the container_runtime and node roles' output in logs/deploy.log",
        do=f"{expected.login()}, then kubelet --version; containerd --version; runc --version",
    )


def test_services_run_the_installed_files(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        nodes.replaced_binaries(facts, expected),
        claim="kubelet and the container runtime were restarted after their files were replaced",
        look="handlers in logs/deploy.log",
        do=f"{expected.login()}, then ls -l /proc/$(pidof kubelet)/exe",
    )
