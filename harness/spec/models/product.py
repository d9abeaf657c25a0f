"""matrix/product.yml: the deployment code under test.

What a kind of product asks of a phase is checked in `spec.product_kinds`, at the phase's own line.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from harness.spec.base import (
    ARTIFACT,
    REPOSITORY,
    TAGGED,
    Group,
    GroupNames,
    Model,
    Name,
    Seconds,
    Text,
    Variable,
    Variables,
)
from harness.spec.models.axes import Topology
from harness.spec.models.leaves import ClusterLeaves, ProductChecks
from harness.spec.models.product_declared import DeclaredOptions, DeclaredPhase
from harness.spec.phase_environment import PREFIX


class AnsibleOptions(Model):
    """Which Ansible runs the playbooks, and how. Paths are relative to the product's directory.

    path: folder with the ansible-playbook to run; without it and `install`, vmatrix's own Ansible.
    install: requirements file of Python packages, with ansible-core. vmatrix installs them once, in an environment
    in its cache.
    requirements: requirements file of ansible-galaxy. vmatrix installs its collections and roles once, in its cache.
    offline: folder with the archives of all `requirements`; nothing is then asked of a Galaxy server.
    config: the ansible.cfg to use; default: the one beside each phase's playbook.
    inventories: more inventories, without machines, or folders group_vars and host_vars; vmatrix's inventory wins.
    args: more arguments of ansible-playbook, in every phase.
    become: run the playbooks with --become.
    """

    path: Text | None = None
    install: Text | None = None
    requirements: Text | None = None
    offline: Text | None = None
    config: Text | None = None
    inventories: tuple[Text, ...] = ()
    args: tuple[Text, ...] = ()
    become: bool = False

    @model_validator(mode="after")
    def _agree(self) -> AnsibleOptions:
        if self.path is not None and self.install is not None:
            raise ValueError("has both `path` and `install`; one of them says which Ansible is used")
        if self.offline is not None and self.requirements is None:
            raise ValueError("has `offline` without `requirements`, whose archives it would hold")
        return self


class Sources(Model):
    """Where the sources of a product are that lie outside of the project.

    git: address of a Git repository, as `git clone` takes it.
    revision: a tag, or a commit by its full id, of the Git repository.
    path: folder with the sources, relative to the project.
    releases: tags that the project is made for, each with the versions that this release knows, by the variable that
      names them; other sources and other versions are refused. Without it, any may be used.
    """

    git: Text | None = None
    revision: Text | None = None
    path: Text | None = None
    releases: dict[Text, dict[Variable, Annotated[tuple[Text, ...], Field(min_length=1)]]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way(self) -> Sources:
        if (self.git is None) == (self.path is None):
            raise ValueError("needs either `git` and `revision`, or `path`")
        if (self.git is None) != (self.revision is None):
            raise ValueError("needs `git` and `revision` together: a run tells which revision was tested")
        if self.releases and self.revision is not None and self.revision not in self.releases:
            raise ValueError(f"revision {self.revision} is not one of `releases`: {', '.join(self.releases)}")
        return self


def _not_ours(name: str) -> str:
    if name.startswith(PREFIX):
        raise ValueError(f"names that begin with {PREFIX} are vmatrix's own; use another one")
    return name


class CommandPhase(Model):
    """A phase that is a program."""

    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="With kind `command`: the program of the phase and its arguments. A path with a slash starts at "
        "the product's directory; a name without one is looked for on the PATH.",
    )
    working_directory: Text | None = Field(
        default=None,
        description="With kind `command`: where the program runs, relative to the product's directory; default: there.",
    )
    environment: dict[Annotated[Variable, AfterValidator(_not_ours)], str] = Field(
        default_factory=dict,
        description="With kind `command`: environment variables for the program, in addition to those of vmatrix.",
    )


FIELDS = ("name", "version", "minor", "major_number", "minor_number", "arch", "mixed_arch")  # of a template
ARCHIVES = (".tar.gz", ".tgz", ".tar")  # what a path ends with that is served as an archive
PACKED = re.compile(r"\.(zip|gz|bz2|xz|zst|tbz2|txz)$")
RELATIVE = r"^[A-Za-z0-9_~][^\s/]*(/[^\s/]+)*$"


def known_fields(template: str) -> str:
    """Refuse a template with a field that nothing fills."""
    try:
        parsed = [field for field in Formatter().parse(template) if field[1] is not None]
        names_used = [
            f"{name}{':' if form else ''}{form}{'!' if how else ''}{how or ''}" for _, name, form, how in parsed
        ]
    except ValueError as error:
        raise ValueError(f"not a template: {error}") from error
    for name in names_used:
        if name not in FIELDS:
            raise ValueError(f"unknown field {{{name}}} in {template!r}; known: {', '.join(FIELDS)}")
    return template


def _served_path(template: str) -> str:
    """Refuse what no file of a mirror can be called, and archives of kinds that are not made."""
    known_fields(template)
    if re.match(RELATIVE, template) is None or ".." in template.split("/"):
        raise ValueError(f"{template!r} is not a path below the mirror's files, such as host/folder/NAME-{{version}}")
    if PACKED.search(template) and not template.endswith(ARCHIVES):
        raise ValueError(f"{template!r}: only {', '.join(ARCHIVES)} archives can be made")
    return template


ServedPath = Annotated[str, AfterValidator(_served_path)]
Inside = Annotated[str, AfterValidator(known_fields)]
ArtifactName = Annotated[str, StringConstraints(pattern=ARTIFACT)]
Repository = Annotated[str, StringConstraints(pattern=REPOSITORY)]
ImageName = Annotated[str, StringConstraints(pattern=TAGGED)]


class ServedProgram(Model):
    """A program of vmatrix's that the mirror serves at a path of the product's choice.

    artifact: NAME, in the version of the cell, or NAME@VERSION.
    as: the path below the mirror's files; one that ends in .tar.gz, .tgz or .tar is an archive.
    inside: the folder of the program's files in the archive.
    checksums: the path of the file that has the checksum; by default that of the file with .sha256 at its end.
    """

    artifact: ArtifactName
    as_: ServedPath = Field(alias="as")
    inside: Inside = ""
    checksums: ServedPath | None = None


class RenamedImage(Model):
    """An image of vmatrix's that the registry has by another name, too.

    artifact: NAME or NAME@TAG of an image.
    as: REPOSITORY, with the image's own tag, or REPOSITORY:TAG.
    """

    artifact: ArtifactName
    as_: Repository = Field(alias="as")


class OwnImage(Model):
    """An image of the product's that is pushed into the registry.

    archive: a file that `docker save` wrote, an OCI archive, or the folder of an OCI layout; relative to the project.
    name: REPOSITORY:TAG in the registry; by default what the archive calls its image, without the registry's host.
    """

    archive: Text
    name: ImageName | None = None


SERVE = "expected NAME, NAME@VERSION or {artifact: NAME, as: PATH, inside: FOLDER, checksums: PATH}"
IMAGE = "expected NAME, NAME@TAG, {artifact: NAME, as: REPOSITORY} or {archive: PATH, name: REPOSITORY:TAG}"


def _form(entry: Any) -> str | None:
    """Tell which form an entry has, by its keys."""
    if isinstance(entry, str):
        return "name"
    if isinstance(entry, OwnImage) or (isinstance(entry, dict) and "archive" in entry):
        return "own"
    return "ours" if isinstance(entry, dict | ServedProgram | RenamedImage) else None


Served = Annotated[
    Annotated[ArtifactName, Tag("name")] | Annotated[ServedProgram, Tag("ours")],
    Discriminator(_form, custom_error_type="unfit", custom_error_message=SERVE),
]
WantedImage = Annotated[
    Annotated[ArtifactName, Tag("name")] | Annotated[RenamedImage, Tag("ours")] | Annotated[OwnImage, Tag("own")],
    Discriminator(_form, custom_error_type="unfit", custom_error_message=IMAGE),
]


class ProductArtifacts(Model):
    """What guests find on the mirror because the product asks for it. A run obtains this, and what its checks need.

    folder: of files that the mirror serves as they are, relative to the project.
    serve: programs of vmatrix's; a bare name is served at its address upstream, without the https://.
    images: container images in the registry: names of vmatrix's, or archives of the product's own.
    """

    folder: Text | None = None
    serve: tuple[Served, ...] = ()
    images: tuple[WantedImage, ...] = ()


Kind = Literal["ansible", "command", "declared"]


class ProductPhase(CommandPhase, DeclaredPhase):
    """How a phase is run.

    playbook: with kind `ansible`, the playbook, relative to the product's directory.
    args: with kind `ansible`, more arguments of ansible-playbook, in this phase.
    vars: variables of this phase, over those of the product; values of axes win over them.
    hops: whether one run goes through the steps between by itself, such as the minor releases of an upgrade; phases of
      scenarios that are a `hop` are then left out, and the mirror has what the steps need.
    seconds: how long one run, or each step of one with `hops`, takes on a quiet host; what cells are expected to take
      before they have run.
    idempotent: whether a second run, right after the first, changes nothing; the suite `idempotence` then checks it.
    paths: globs of further files (relative to the project) whose change affects this phase and no other.
    """

    playbook: Text | None = None
    args: tuple[Text, ...] = ()
    vars: Variables = Field(default_factory=dict)
    hops: bool = False
    seconds: Seconds | None = None
    idempotent: bool = False
    paths: tuple[Text, ...] = ()

    @property
    def program(self) -> str | None:
        """Return the file that is run, relative to the product's directory; None if it is not the product's."""
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
