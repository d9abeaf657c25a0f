"""A product of kind `ansible`: each phase is a playbook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.cell.product.playbook import playbook_argv, run_playbook
from harness.cell.product.protocol import PhaseOutcome, PhaseRun, Tell
from harness.model import Environment
from harness.proc import pasteable
from harness.spec.models import Product


@dataclass(frozen=True)
class Playbooks:
    """Playbooks in a folder, with the ansible.cfg beside them."""

    product: Product
    project: Path

    def prepare(self, tell: Tell) -> None:
        """Have everything: vmatrix's own Ansible runs the playbooks."""

    def command(self, phase: str, environment: Environment) -> str:
        """Return the ansible-playbook command of a phase."""
        playbook = self._playbook(phase)
        argv = playbook_argv(playbook, environment.files.hosts, environment.files.variables)
        return f"ANSIBLE_CONFIG={playbook.parent / 'ansible.cfg'} {pasteable(['ansible-playbook', *argv[1:]])}"

    def run(self, wanted: PhaseRun) -> PhaseOutcome:
        """Run the playbook of a phase."""
        playbook = self._playbook(wanted.phase.name)
        recaps = run_playbook(
            wanted.environment, playbook, timeout=wanted.timeout, log=wanted.log, on_task=wanted.on_task
        )
        return PhaseOutcome(playbook.name, frozenset(recap.host for recap in recaps))

    def _playbook(self, phase: str) -> Path:
        return self.project / self.product.directory / str(self.product.phases[phase].playbook)
