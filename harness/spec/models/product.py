"""matrix/product.yml: the deployment code under test.

What a kind of product asks of a phase is checked in `spec.product_kinds`, at the phase's own line.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.spec.base import Group, GroupNames, Model, Name, Text, Variable, Variables
from harness.spec.models.ansible import AnsibleOptions, Sources
from harness.spec.models.leaves import ClusterLeaves, ProductChecks
from harness.spec.models.product_artifacts import ProductArtifacts
from harness.spec.models.product_command import CommandPhase
from harness.spec.models.product_declared import DeclaredOptions, DeclaredPhase
from harness.spec.models.topologies import Topology

Kind = Literal["ansible", "command", "declared"]


class ProductPhase(CommandPhase, DeclaredPhase):
    """How a phase is run.

    playbook: with kind `ansible`, the playbook, relative to the product's directory.
    args: with kind `ansible`, more arguments of ansible-playbook, in this phase.
    vars: variables of this phase, over those of the product; values of axes win over them.
    hops: whether one run goes through the steps between by itself, such as the minor releases of an upgrade; phases of
      scenarios that are a `hop` are then left out, and the mirror has what the steps need.
    idempotent: whether a second run, right after the first, changes nothing; the suite `idempotence` then checks it.
    paths: globs of further files (relative to the project) whose change affects this phase and no other.
    """

    playbook: Text | None = None
    args: tuple[Text, ...] = ()
    vars: Variables = Field(default_factory=dict)
    hops: bool = False
    idempotent: bool = False
    paths: tuple[Text, ...] = ()

    @property
    def program(self) -> str | None:
        """Return the file that is run, relative to the product's directory; None where it is no file of the product."""
        if self.command is None:
            return self.playbook if self.playbook is not None else self.apply
        program = self.command[0]
        return program if "/" in program else None


class Product(Model):
    """The deployment code under test, and how its phases are run.

    name: its name, in reports.
    kind: what a phase is: a playbook (`ansible`), any program (`command`), or objects that are applied (`declared`).
    directory: its folder, relative to the project.
    sources: sources outside of the project; `{sources}` in paths of this file is their folder.
    groups: the product's own names of the groups of topologies, one or several each, or `[]` for none.
    ansible: with kind `ansible`, which Ansible runs the playbooks, and how.
    declared: with kind `declared`, what is applied, and how it is seen that this has worked.
    requires: variables that every cell must give the product, by `vars` here or of the values of an axis.
    phases: how each phase is run; scenarios with other phases are left out of the plan.
    vars: variables for every phase of every cell, below those of the values.
    variables: the product's own names of variables of vmatrix; a cell has these under both names.
    artifacts: what guests find on the mirror; without it everything that vmatrix has for a cell's versions.
    without_effect: globs of files (relative to the project) whose change affects no cell.
    cluster: what the product leaves behind.  checks: which checks judge it.
    """

    name: Text
    kind: Kind = "ansible"
    directory: Text
    sources: Sources | None = None
    artifacts: ProductArtifacts | None = None
    groups: dict[Group, GroupNames] = Field(default_factory=dict)
    ansible: AnsibleOptions | None = None
    declared: DeclaredOptions | None = None
    requires: tuple[Variable, ...] = ()
    phases: dict[Name, ProductPhase] = Field(min_length=1)
    vars: Variables = Field(default_factory=dict)
    variables: dict[Variable, Variable] = Field(default_factory=dict)
    without_effect: tuple[Text, ...] = ()
    cluster: ClusterLeaves = ClusterLeaves.model_construct()
    checks: ProductChecks = ProductChecks.model_construct()

    @property
    def makes_machines(self) -> bool:
        """Tell whether it makes the machines of its cells itself."""
        return self.declared is not None and self.declared.makes is not None

    def lacking(self, topology: Topology) -> tuple[str, ...]:
        """Return the groups that the product does not have and that some machines of a topology are in alone."""
        lacks = {group for group, names in self.groups.items() if not names}
        alone = [machine.groups for machine in topology.machines if lacks.issuperset(machine.groups)]
        return tuple(dict.fromkeys(group for groups in alone for group in groups))

    def group_names(self, group: Group) -> tuple[str, ...]:
        """Return the product's names of a group, without ours."""
        names = self.groups.get(group, ())
        return (names,) if isinstance(names, str) else names
