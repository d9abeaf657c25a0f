"""A cell's whole life as four idempotent verbs: provision, deploy, collect, tear down; each a recorded step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.cell import diagnose, inventory, provision
from harness.cell.deploy import run_playbook
from harness.cell.keys import PRIVATE_KEY
from harness.cell.site import Site
from harness.cell.steps import Steps, flatten
from harness.cell.teardown import Selection, reap
from harness.errors import InfraRetriable, ProductError, VmatrixError
from harness.model import Cell, Environment, GuestCluster

KUBECONFIG = "kubeconfig"
SECRETS = (PRIVATE_KEY, KUBECONFIG, f"{KUBECONFIG}.join")
MOST_ATTEMPTS = 2  # of provisioning, and of nothing else


@dataclass
class Life:
    """One attempt at a cell. A verb that succeeded is not repeated; one that failed fails again the same way."""

    site: Site
    attempt: provision.Attempt
    steps: Steps
    on_task: Callable[[str], None] = lambda _: None
    environment: Environment | None = None
    guest: GuestCluster | None = None
    failure: VmatrixError | None = None
    torn_down: bool = False
    checks_failed: list[str] = field(default_factory=list)

    @property
    def cell(self) -> Cell:
        """Return the cell."""
        return self.attempt.cell

    @property
    def failed(self) -> bool:
        """Tell whether a step or a check has failed."""
        return self.failure is not None or bool(self.checks_failed)

    def provision(self) -> Environment:
        """Make the machines.

        Raises:
            VmatrixError: they cannot be had; said again at each further call.
        """
        if self.environment is None:
            try:
                self.environment = self._provision()
            except InfraRetriable:
                if self.attempt.number >= MOST_ATTEMPTS:
                    raise
                self._start_over()
                self.environment = self._provision()
        return self.environment

    def _provision(self) -> Environment:
        made: Environment = self._step("provision", lambda: provision.provision(self.site, self.attempt, self.steps))
        return made

    def _start_over(self) -> None:
        """Go on in a fresh namespace; the first attempt's traces stay in the report and in its directory."""
        self.collect()
        self.teardown()
        number = self.attempt.number + 1
        directory = self.attempt.directory / f"attempt-{number}"
        self.attempt = replace(self.attempt, number=number, directory=directory)
        self.steps.attempt = number
        self.failure = None
        self.torn_down = False

    def deploy(self) -> GuestCluster:
        """Run the product's deploy phase on the machines (made first if need be).

        Raises:
            VmatrixError: it failed; said again at each further call.
        """
        if self.guest is None:
            environment = self.provision()
            self.guest = self._step("deploy", lambda: self._deploy(environment))
        return self.guest

    def _deploy(self, environment: Environment) -> GuestCluster:
        kubeconfig = environment.directory / KUBECONFIG
        variables = self.variables(environment, kubeconfig)
        hosts, extra = inventory.write(environment, variables)
        product = self.site.spec.product
        playbook = self.site.project / product.directory / product.phases["deploy"].playbook
        recaps = run_playbook(
            environment,
            playbook,
            hosts=hosts,
            extra=extra,
            timeout=self.site.timeouts.phase_deploy,
            log=environment.directory / "logs" / "deploy.log",
            on_task=self.on_task,
        )
        missing = {m.name for m in environment.machines} - {r.host for r in recaps}
        if missing:
            raise ProductError(
                f"{playbook.name} did nothing on {', '.join(sorted(missing))}",
                hint="do its plays name the inventory's groups?",
                paths=(environment.directory / "logs" / "deploy.log",),
            )
        if not kubeconfig.is_file():
            raise ProductError(
                f"{playbook.name} ended well and left no kubeconfig at {kubeconfig}",
                hint="the playbook must write the admin kubeconfig to cluster_kubeconfig_path",
            )
        return GuestCluster(environment=environment, kubeconfig=kubeconfig, expected=variables)

    def variables(self, environment: Environment, kubeconfig: Path) -> dict[str, Any]:
        """Return the playbooks' variables: the cell's, then the infra's, then the mirror's."""
        common = {
            **self.cell.vars,
            **self.site.guest_vars,
            "cluster_mirror_url": self.site.mirror.http,
            "cluster_image_registry": self.site.mirror.registry,
        }
        return inventory.extra_vars(environment, common, kubeconfig=kubeconfig)

    def collect(self) -> None:
        """Dump what explains the outcome. Never raises for what cannot be had."""
        with self.steps.step("collect") as step:
            try:
                written = diagnose.collect(
                    self.site.cluster,
                    self.attempt.namespace,
                    self.attempt.directory,
                    self.environment,
                    seconds=self.site.timeouts.collect,
                )
                step.note(files=len(written))
            except (VmatrixError, OSError) as error:
                step.note(error=str(error))

    def teardown(self) -> None:
        """Take everything of the cell away.

        Raises:
            Leaked: something stays; it is named.
        """
        if self.torn_down:
            return
        with self.steps.step("teardown"):
            selection = Selection(run=self.attempt.run, cell=self.cell.id)
            reap(self.site.cluster, selection, seconds=self.site.timeouts.teardown)
        for name in SECRETS:  # they open nothing any more, and a run's directory is what people pass around
            (self.attempt.directory / name).unlink(missing_ok=True)
        self.torn_down = True

    def _step(self, name: str, work: Callable[[], Any]) -> Any:
        if self.failure is not None:
            raise self.failure
        try:
            with self.steps.step(name):
                return work()
        except VmatrixError as failure:
            self.failure = failure
            raise
        except BaseExceptionGroup as group:
            first = flatten(group)
            if not isinstance(first, VmatrixError):
                raise
            self.failure = first
            raise first from group
