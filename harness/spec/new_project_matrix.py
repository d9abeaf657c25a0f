"""product.yml and tiers.yml of a team's playbooks, with comments that say what each part is."""

from __future__ import annotations

import textwrap
from pathlib import Path

import yaml

from harness.errors import BadInput
from harness.spec import new_project_texts as texts
from harness.spec.models import Spec
from harness.spec.new_project_playbooks import ETCD, TeamPlaybooks
from harness.spec.shape import unknown
from harness.spec.usual_names import FIRST

TIER = "smoke"
ADDRESSES = ("cluster_pod_cidr", "cluster_service_cidr", "cluster_dns_domain")  # variables that checks know, too


def product_text(name: str, playbooks: TeamPlaybooks, spec: Spec) -> str:
    """Return product.yml of a team's playbooks."""
    phases = {phase: playbooks.phases[phase] for phase in spec.product.phases if phase in playbooks.phases}
    parts = [texts.PRODUCT_TEXT.format(name=_flow(name), directory=_flow(playbooks.folder))]
    if playbooks.groups:
        parts.append(texts.GROUPS_TEXT.format(groups=_flow(playbooks.groups)))
        if not playbooks.groups[ETCD]:
            parts.append(texts.WITHOUT_ETCD_TEXT)
    if playbooks.guessed:
        parts.append(texts.GUESSED_TEXT.format(guessed=_comment(", ".join(playbooks.guessed))))
    if playbooks.others:
        parts.append(texts.OTHERS_TEXT.format(others=_comment(", ".join(playbooks.others))))
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


def refuse_playbooks(directory: Path, playbooks: TeamPlaybooks, spec: Spec) -> None:
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


def _comment(words: str) -> str:
    """Return words as the lines of a comment among the keys of `product`."""
    return textwrap.fill(words, 110, initial_indent="  # ", subsequent_indent="  # ")


def _flow(content: object) -> str:
    """Render a value of YAML in one line."""
    text: str = yaml.safe_dump(content, sort_keys=False, width=1000, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")
