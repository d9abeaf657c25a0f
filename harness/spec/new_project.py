"""The files of a new project: as few as make one, with comments, over the packaged matrix.

Covers a team's playbooks, the examples that ship with vmatrix, and vmatrix's own playbooks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.errors import BadInput
from harness.paths import MATRIX, SETTINGS, is_project, packaged_dir
from harness.spec import new_project_examples as packaged
from harness.spec import new_project_texts as texts
from harness.spec.loader import load_spec
from harness.spec.models import Spec
from harness.spec.new_project_playbooks import FIRST, TeamPlaybooks
from harness.spec.schemas import schemas
from harness.spec.shape import unknown

TIER = "smoke"
ADDRESSES = ("cluster_pod_cidr", "cluster_service_cidr", "cluster_dns_domain")  # variables that checks know, too
GITLAB_PATH = re.compile(r"^[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)+$")
Files = dict[str, tuple[str, int]]  # a file's text and mode, by its path in the project


@dataclass(frozen=True)
class NewProject:
    """What is asked of a new project.

    begins: with a team's playbooks, with the example of this name, or (None) with vmatrix's own playbooks.
    gitlab: the path of vmatrix on the team's GitLab, "" for no pipeline.
    """

    directory: Path
    name: str
    begins: TeamPlaybooks | str | None
    gitlab: str = texts.GITLAB

    @property
    def tier(self) -> str:
        """The tier to run first."""
        return packaged.tier_of(self.begins) if isinstance(self.begins, str) else TIER

    def files(self) -> Files:
        """Return the text and the mode of each file, by its path in the project.

        Raises:
            BadInput: the folder is a project already, or a phase, a playbook or a path cannot be.
        """
        refuse_project(self.directory)
        if self.gitlab and not GITLAB_PATH.match(self.gitlab):
            raise BadInput(f"{self.gitlab!r} is no path of a GitLab project", hint="--gitlab GROUP/PROJECT, or `none`")
        made = self._beginning()
        inputs = texts.OWN_INPUTS.format(tier=self.tier) if self.begins is not None else ""
        if self.gitlab:
            made.setdefault(texts.PIPELINE, (texts.PIPELINE_TEXT.format(gitlab=self.gitlab, inputs=inputs), 0o644))
        made.setdefault(texts.IGNORE, (texts.IGNORED, 0o644))
        known = schemas()
        described = [Path(name).stem for name in made if name.startswith(f"{MATRIX}/") and Path(name).stem in known]
        return made | {f"docs/schemas/{name}.json": (known[name], 0o644) for name in described}

    def _beginning(self) -> Files:
        if self.begins is None:
            return {SETTINGS: (texts.SETTINGS_TEXT, 0o644)}
        if isinstance(self.begins, str):
            return packaged.files(self.begins)
        spec = load_spec(packaged_dir() / MATRIX)
        _refuse(self.directory, self.begins, spec)
        made = {"product": product_text(self.name, self.begins, spec), "tiers": tiers_text(spec)}
        return {f"{MATRIX}/{name}.yml": (texts.HEAD.format(name=name) + text, 0o644) for name, text in made.items()}


def refuse_project(directory: Path) -> None:
    """Refuse a folder that is a project already, or no folder. Raises BadInput."""
    if is_project(directory):
        raise BadInput(f"{directory} is a project already", hint="`vmatrix config` shows its files")
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"{directory} is no folder", hint="name a folder, which may be new")


def product_text(name: str, playbooks: TeamPlaybooks, spec: Spec) -> str:
    """Return product.yml of a team's playbooks."""
    phases = {phase: playbooks.phases[phase] for phase in spec.product.phases if phase in playbooks.phases}
    parts = [texts.PRODUCT_TEXT.format(name=_flow(name), directory=_flow(playbooks.folder))]
    if playbooks.groups:
        parts.append(texts.GROUPS_TEXT.format(groups=_flow(playbooks.groups)))
    if playbooks.others:
        parts.append(texts.OTHERS_TEXT.format(others=", ".join(playbooks.others)))
    if playbooks.ansible:
        parts.append(texts.ANSIBLE_TEXT.format(ansible=_flow(playbooks.ansible)))
    parts.append(texts.PHASES_TEXT)
    parts += [f"    {phase}: {_flow({'playbook': file})}\n" for phase, file in phases.items()]
    parts.append(texts.VARS_TEXT)
    parts += [f"    {variable}: {_flow(spec.product.vars[variable])}\n" for variable in ADDRESSES]
    return "".join(parts)


def tiers_text(spec: Spec) -> str:
    """Return tiers.yml with the first cell of the packaged smoke tier: the one that the embedded infra can run."""
    tier = spec.tiers[TIER]
    cell = ",\n         ".join(f"{axis}: {_flow(value)}" for axis, value in tier.pinned[0].items())
    return texts.TIERS_TEXT + (
        f"tiers:\n  {TIER}:\n    label: {_flow(tier.label)}\n    pinned:\n      - {{{cell}}}\n"
        f"    suites: {_flow(list(tier.suites))}\n    budget: {{cells: 1, machines: 2, minutes: 30}}\n"
    )


def _refuse(directory: Path, playbooks: TeamPlaybooks, spec: Spec) -> None:
    """Refuse phases and playbooks that do not exist. Raises BadInput."""
    folder = directory / playbooks.folder
    if not folder.is_dir():
        raise BadInput(f"the folder {folder} does not exist", hint="--playbooks starts at the project's folder")
    for phase, playbook in playbooks.phases.items():
        if phase not in spec.product.phases:
            raise BadInput(unknown("phase", phase, spec.product.phases), hint="--phase PHASE=PLAYBOOK")
        if not (folder / playbook).is_file():
            raise BadInput(f"the playbook {folder / playbook} does not exist", hint=f"--phase {phase}=PLAYBOOK")
    if FIRST not in playbooks.phases:
        raise BadInput(
            f"no playbook in {folder} looks like one that deploys a cluster",
            hint=f"name it: --playbooks FOLDER --phase {FIRST}=PLAYBOOK",
        )


def _flow(content: object) -> str:
    """Render a value of YAML in one line."""
    text: str = yaml.safe_dump(content, sort_keys=False, width=1000, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")
