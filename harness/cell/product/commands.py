"""A product of kind `command`: each phase is a program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.cell.product.command import by_hand, run_command
from harness.cell.product.command_result import read_result
from harness.cell.product.protocol import PhaseOutcome, PhaseRun, Tell
from harness.model import Environment
from harness.paths import project_dir
from harness.spec.models import Product, Timeouts


@dataclass(frozen=True)
class Commands:
    """Programs: the product's own, or any on the PATH."""

    product: Product
    project: Path

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Have everything: that the programs are there was checked when product.yml was read."""

    def entries(self) -> tuple[Path, ...]:
        """Return that nothing of the cache is used."""
        return ()

    def command(self, phase: str, machines: Environment) -> str:
        """Return the program of a phase with what it needs around it; the phase that was run last left that there."""
        return by_hand(machines.files.phase_environment, self._folder(phase), self._argv(phase))

    def run(self, wanted: PhaseRun) -> PhaseOutcome:
        """Run the program of a phase."""
        phase = wanted.phase.name
        extra = dict(self.product.phases[phase].environment)
        run_command(wanted, self.product, self._argv(phase), self._folder(phase), extra)
        environment = wanted.environment
        names = [machine.name for machine in environment.machines]
        changed = read_result(environment.files.result(wanted.stage), names)[0].changed if wanted.again else ()
        return PhaseOutcome(Path(self._argv(phase)[0]).name, changed=changed)

    def _argv(self, phase: str) -> list[str]:
        program, *arguments = self.product.phases[phase].command or ()
        return [str(self._directory / program) if "/" in program else program, *arguments]

    def _folder(self, phase: str) -> Path:
        return self._directory / (self.product.phases[phase].working_directory or "")

    @property
    def _directory(self) -> Path:
        project = self.project if self.project.is_absolute() else project_dir() / self.project
        return project / self.product.directory
