"""The files of a new project: as few as make one, with comments, over the packaged matrix.

Covers playbooks as the product, the team's or vmatrix's own. Phases that the product lacks are left out of the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from harness.errors import BadInput
from harness.paths import MATRIX, SETTINGS, is_project, packaged_dir
from harness.spec.loader import load_spec
from harness.spec.models import Spec
from harness.spec.shape import unknown

FIRST = "deploy"  # the phase that no product can lack
GUESSES = ("site.yml", "cluster.yml", "deploy.yml", "main.yml")  # names of a playbook that deploys
TIER = "smoke"
HEAD = "# yaml-language-server: $schema=../docs/schemas/{name}.json\n"
IGNORE, PIPELINE = ".gitignore", ".gitlab-ci.yml"

IGNORED = "# Results of `vmatrix run`, and the JSON Schemas that `vmatrix schema` writes.\nruns/\ndocs/schemas/\n"
SETTINGS_TEXT = """\
# Settings of vmatrix; `vmatrix config` lists all of them. This file marks the project, so keep it even if it is empty.
# timeout_scale: 2
"""
PRODUCT_TEXT = """\
# The deployment code under test, with the playbook of each phase. Paths are relative to the project's folder.
# A playbook gets the inventory groups control_plane, etcd and node, and variables that say what to deploy:
# `vmatrix explain CELL` shows both.
"""
TIERS_TEXT = """\
# Which cells run together. One cell: one control plane and one worker. Add cells to `pinned`, or `cover` to plan some;
# after that, run `vmatrix plan --write`.
"""
LEFT_OUT_TEXT = {
    "scenarios": "# Scenarios of the packaged matrix with phases that the product lacks. Delete the lines of others.\n",
    "axes": "# Values of the packaged matrix that the product cannot have. Change or add values here, by their id.\n",
}
PIPELINE_TEXT = """\
# Runs cells for merge requests and at night; vmatrix's docs/gitlab.md explains the inputs.
include:
  - project: {gitlab}
    file: templates/vmatrix.yml
    ref: main
    inputs:
      vmatrix_project: {gitlab}
{inputs}
stages: [lint, plan, smoke, matrix, report]
"""
OWN_INPUTS = """\
      tier: smoke
      nightly_tier: smoke
"""


@dataclass(frozen=True)
class NewProject:
    """What is asked of a new project.

    playbooks: their folder, relative to the project's; None to test vmatrix's own.
    phases: the playbook of each phase.  gitlab: the path of vmatrix on the team's GitLab, "" for no pipeline.
    """

    directory: Path
    name: str = ""
    playbooks: str | None = None
    phases: Mapping[str, str] = field(default_factory=dict)
    gitlab: str = ""

    def files(self) -> dict[str, str]:
        """Return the text of each file, by its path in the project.

        Raises:
            BadInput: the folder is a project already, or a phase or a playbook does not exist.
        """
        if is_project(self.directory):
            raise BadInput(f"{self.directory} is a project already", hint="`vmatrix config` shows its files")
        made = self._matrix() if self.playbooks is not None else {SETTINGS: SETTINGS_TEXT}
        if self.gitlab:
            inputs = OWN_INPUTS if self.playbooks is not None else ""
            made[PIPELINE] = PIPELINE_TEXT.format(gitlab=self.gitlab, inputs=inputs).replace("\n\nstages", "\nstages")
        return {**made, IGNORE: IGNORED}

    def _matrix(self) -> dict[str, str]:
        packaged = load_spec(packaged_dir() / MATRIX)
        self._refuse(packaged)
        product = {"name": self.name, "directory": self.playbooks, "phases": _in_order(packaged, self.phases)}
        files = {
            "product": PRODUCT_TEXT + _yaml({"product": product}),
            "tiers": TIERS_TEXT + _yaml({"tiers": {TIER: _tier(packaged)}}),
        }
        lacking = [
            name for name, one in packaged.scenarios.items() if any(p.phase not in self.phases for p in one.phases)
        ]
        if lacking:
            gone = [{"id": name, "remove": True} for name in lacking]
            changes = {"scenarios": dict.fromkeys(lacking), "axes": [{"name": "scenario", "values": gone}]}
            for name, change in changes.items():
                text = _yaml({"extends": "default", name: change}, lines=name == "scenarios")
                files[name] = LEFT_OUT_TEXT[name] + text
        return {f"{MATRIX}/{name}.yml": HEAD.format(name=name) + text for name, text in files.items()}

    def _refuse(self, packaged: Spec) -> None:
        """Refuse phases and playbooks that do not exist. Raises BadInput."""
        folder = self.directory / (self.playbooks or "")
        if not folder.is_dir():
            raise BadInput(f"the folder {folder} does not exist", hint="--playbooks starts at the project's folder")
        if FIRST not in self.phases:
            raise BadInput(f"there is no playbook for phase {FIRST}", hint=f"name it: --phase {FIRST}=PLAYBOOK")
        for phase, playbook in self.phases.items():
            if phase not in packaged.product.phases:
                raise BadInput(unknown("phase", phase, packaged.product.phases), hint="--phase PHASE=PLAYBOOK")
            if not (folder / playbook).is_file():
                raise BadInput(f"the playbook {folder / playbook} does not exist", hint=f"--phase {phase}=PLAYBOOK")


def guessed(folder: Path) -> str | None:
    """Return the playbook in a folder that probably deploys, by its name."""
    return next((name for name in GUESSES if (folder / name).is_file()), None)


def _in_order(packaged: Spec, phases: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {name: {"playbook": phases[name]} for name in packaged.product.phases if name in phases}


def _tier(packaged: Spec) -> dict[str, object]:
    """Return the packaged smoke tier: it is the first cell that anybody wants to see."""
    tier = packaged.tiers[TIER]
    return {
        "label": tier.label,
        "pinned": [dict(cell) for cell in tier.pinned],
        "suites": list(tier.suites),
        "budget": {**tier.budget.model_dump(), "minutes": 30},
    }


def _yaml(content: object, *, lines: bool = False) -> str:
    """Render YAML; what is short shares a line, unless there is to be a line for each key."""
    text: str = yaml.safe_dump(content, sort_keys=False, width=110, default_flow_style=False if lines else None)
    return text
