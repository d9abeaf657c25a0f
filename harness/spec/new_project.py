"""The files of a new project: as few as make one, with comments, over the packaged matrix.

Covers playbooks as the product, the team's or vmatrix's own. Scenarios with phases that the product lacks are left out
of its plans, whatever the files say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from harness.errors import BadInput
from harness.paths import MATRIX, SETTINGS, is_project, packaged_dir
from harness.spec import new_project_texts as texts
from harness.spec.loader import load_spec
from harness.spec.models import Spec
from harness.spec.shape import unknown

FIRST = "deploy"  # the phase that no product can lack
GUESSES = ("site.yml", "cluster.yml", "deploy.yml", "main.yml")  # names of a playbook that deploys
TIER = "smoke"


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
        made = self._matrix() if self.playbooks is not None else {SETTINGS: texts.SETTINGS_TEXT}
        if self.gitlab:
            inputs = texts.OWN_INPUTS if self.playbooks is not None else ""
            made[texts.PIPELINE] = texts.PIPELINE_TEXT.format(gitlab=self.gitlab, inputs=inputs)
        return {**made, texts.IGNORE: texts.IGNORED}

    def _matrix(self) -> dict[str, str]:
        packaged = load_spec(packaged_dir() / MATRIX)
        self._refuse(packaged)
        product = {"name": self.name, "directory": self.playbooks, "phases": _in_order(packaged, self.phases)}
        files = {
            "product": texts.PRODUCT_TEXT + _yaml({"product": product}),
            "tiers": texts.TIERS_TEXT + _yaml({"tiers": {TIER: _tier(packaged)}}),
        }
        return {f"{MATRIX}/{name}.yml": texts.HEAD.format(name=name) + text for name, text in files.items()}

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


def _yaml(content: object) -> str:
    """Render YAML; what is short shares a line."""
    text: str = yaml.safe_dump(content, sort_keys=False, width=110, default_flow_style=None)
    return text
