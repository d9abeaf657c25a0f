"""Every machine has the cell's versions, on disk and running."""

from __future__ import annotations

from harness.validate.commands import on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import upgrade
from harness.validate.phases.observation import Observation
from harness.validate.topics import programs


def test_installed_programs_have_the_expected_versions(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        programs.wrong_binaries(facts, expected),
        claim="every installed program has the cell's version",
        look="the output of the roles container_runtime and node in logs/deploy.log",
        do=on_machine(expected, f"kubelet --version; {expected.runtime_process} --version; runc --version"),
    )


def test_running_programs_have_the_expected_versions(inspection: Inspection) -> None:
    seen = Observation(inspection.expected, inspection.view, inspection.facts, inspection.running, {}, {})
    require(
        upgrade.wrong_running(seen),
        claim="every program that runs has the cell's version, whatever its image or its unit is called",
        look="the file that the process runs; what its image really holds",
        do=on_machine(inspection.expected, "/proc/$(pidof PROGRAM)/exe --version"),
    )


def test_services_run_the_installed_files(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        programs.replaced_binaries(facts, expected),
        claim="kubelet and the container runtime were restarted after their files were replaced",
        look="the handlers in logs/deploy.log",
        do=on_machine(expected, "ls -l /proc/$(pidof kubelet)/exe"),
    )
