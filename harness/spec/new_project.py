"""The files of a new project: as few as make one, with comments, over the packaged matrix.

Covers a team's playbooks, the examples that ship with vmatrix, and vmatrix's own playbooks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from harness.errors import BadInput
from harness.paths import MATRIX, SETTINGS, is_project, packaged_dir
from harness.spec import new_project_examples as packaged
from harness.spec import new_project_texts as texts
from harness.spec.loader import load_spec
from harness.spec.new_project_matrix import TIER, product_text, refuse_playbooks, tiers_text
from harness.spec.new_project_playbooks import TeamPlaybooks
from harness.spec.schemas import schemas
from harness.spec.usual_names import FIRST

GITLAB_PATH = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)+")
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
        if self.gitlab and not GITLAB_PATH.fullmatch(self.gitlab):
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
        refuse_playbooks(self.directory, self.begins, spec)
        begins, hand_out = _handing_out(self.begins)
        made = {"product": product_text(self.name, begins, spec), "tiers": tiers_text(spec)}
        matrix = {f"{MATRIX}/{name}.yml": (texts.HEAD.format(name=name) + text, 0o644) for name, text in made.items()}
        return {**matrix, **hand_out}


def _handing_out(begins: TeamPlaybooks) -> tuple[TeamPlaybooks, Files]:
    """Return playbooks after which there is an admin's kubeconfig, with a playbook that is made for it where needed."""
    if begins.hands_out:
        return begins, {}
    text = texts.HAND_OUT_TEXT.format(playbook=json.dumps(begins.phases[FIRST], ensure_ascii=False))
    path = str(PurePosixPath(begins.folder) / texts.HAND_OUT)
    phases = {**begins.phases, FIRST: texts.HAND_OUT}
    return replace(begins, phases=phases), {path: (text, 0o644)}


def refuse_project(directory: Path) -> None:
    """Refuse a folder that is a project already, or no folder. Raises BadInput."""
    if is_project(directory):
        raise BadInput(f"{directory} is a project already", hint="`vmatrix config` shows its files")
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"{directory} is no folder", hint="name a folder, which may be new")
