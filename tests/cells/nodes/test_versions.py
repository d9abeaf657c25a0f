"""Every machine has the cell's versions, on disk and running."""

from __future__ import annotations

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge import node_versions
from harness.validate.judge.mismatch import require


def test_installed_programs_have_the_expected_versions(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        node_versions.wrong_binaries(facts, expected),
        claim="every installed program has the cell's version",
        look="the output of the roles container_runtime and node in logs/deploy.log",
        do=f"{expected.login()}, then kubelet --version; containerd --version; runc --version",
    )


def test_services_run_the_installed_files(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        node_versions.replaced_binaries(facts, expected),
        claim="kubelet and the container runtime were restarted after their files were replaced",
        look="the handlers in logs/deploy.log",
        do=f"{expected.login()}, then ls -l /proc/$(pidof kubelet)/exe",
    )
