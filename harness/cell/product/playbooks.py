"""A product of kind `ansible`: each phase is a playbook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.cell.product import requirements
from harness.cell.product.protocol import PhaseOutcome, PhaseRun, Tell
from harness.machines.reach.ssh import control_directory
from harness.machines.runner.call import AnsibleCall, Listener, PlaybookInputs
from harness.machines.runner.playbook import run_playbook
from harness.machines.runner.playbook_output import changed_by, recap
from harness.model import Environment
from harness.proc import pasteable
from harness.spec.models import AnsibleOptions, Product, Timeouts


def inputs_of(environment: Environment, log: Path, *, changes: bool = False) -> PlaybookInputs:
    """Return what a playbook is given in a cell: the files in its directory, and a folder of its own for sockets.

    Args:
        changes: whether it is written down what the playbook changes.
    """
    return PlaybookInputs(
        hosts=environment.files.hosts,
        variables=environment.files.variables,
        events=environment.files.failures(log.stem),
        control=control_directory(environment.run, environment.cell.id),
        facts=f"{environment.namespace}-{environment.attempt}-",
        machines=environment.names,
        tunnels=environment.tunnels,
        changes=changes,
    )


def changes_of(events: Path, log: Path) -> tuple[str, ...]:
    """Return what a playbook changed: its tasks, or where our plugin was not loaded, how many by Ansible's recap."""
    found = changed_by(events)
    if found is not None:
        return found
    told = recap(log.read_text(encoding="utf-8", errors="replace"))
    return tuple(f"{one.changed} tasks on {one.host}, by Ansible's recap" for one in told if one.changed)


@dataclass(frozen=True)
class Playbooks:
    """Playbooks in a folder, and how product.yml wants them to be called."""

    product: Product
    project: Path

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Install the Ansible, the collections and the roles that product.yml names."""
        options, seconds = self._options, timeouts.product_install
        if options.install is not None:
            requirements.ensure_environment(self._path(options.install), tell, seconds)
        if options.requirements is not None:
            requirements.ensure_collections(
                self._path(options.requirements), self._offline, self._programs, tell, seconds
            )

    def entries(self) -> tuple[Path, ...]:
        """Return the environment, and the folder of collections and roles."""
        options, found = self._options, list[Path]()
        if options.install is not None:
            found.append(requirements.environment_folder(self._path(options.install)))
        if options.requirements is not None:
            found.append(
                requirements.collections_folder(self._path(options.requirements), self._offline, self._programs)
            )
        return tuple(found)

    def command(self, phase: str, machines: Environment) -> str:
        """Return the ansible-playbook command of a phase."""
        playbook, call = self._playbook(phase), self._call(phase)
        argv = call.argv(playbook, machines.files.hosts, machines.files.variables)
        if call.programs == AnsibleCall().programs:
            argv = [Path(argv[0]).name, *argv[1:]]
        return f"ANSIBLE_CONFIG={call.config_for(playbook)} {pasteable(argv)}"

    def run(self, wanted: PhaseRun) -> PhaseOutcome:
        """Run the playbook of a phase."""
        playbook = self._playbook(wanted.phase.name)
        inputs = inputs_of(wanted.environment, wanted.log, changes=wanted.again)
        touched = run_playbook(
            inputs,
            playbook,
            timeout=wanted.timeout,
            log=wanted.log,
            listener=Listener(task=wanted.on_task),
            call=self._call(wanted.phase.name),
        )
        changed = changes_of(inputs.events, wanted.log) if wanted.again else ()
        return PhaseOutcome(playbook.name, touched, changed)

    def _call(self, phase: str) -> AnsibleCall:
        options = self._options
        libraries = {}
        if options.requirements is not None:
            folder = requirements.collections_folder(self._path(options.requirements), self._offline, self._programs)
            libraries = requirements.collections_settings(folder)
        return AnsibleCall(
            programs=self._programs,
            config=self._path(options.config) if options.config is not None else None,
            inventories=tuple(self._path(name) for name in options.inventories),
            arguments=(
                *(("--become",) if options.become else ()),
                *options.args,
                *self.product.phases[phase].args,
            ),
            libraries=libraries,
        )

    @property
    def _options(self) -> AnsibleOptions:
        return self.product.ansible if self.product.ansible is not None else AnsibleOptions()

    @property
    def _programs(self) -> Path:
        options = self._options
        if options.path is not None:
            return self._path(options.path).expanduser()
        return (
            requirements.environment_programs(self._path(options.install))
            if options.install
            else AnsibleCall().programs
        )

    @property
    def _offline(self) -> Path | None:
        return self._path(self._options.offline) if self._options.offline is not None else None

    def _path(self, name: str) -> Path:
        return self.project / self.product.directory / name

    def _playbook(self, phase: str) -> Path:
        return self._path(str(self.product.phases[phase].playbook))
