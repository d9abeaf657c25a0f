"""New project (`vmatrix init`): its files over the packaged matrix, from an example or a folder of playbooks.

A proposal by the usual names, which a person can change: nothing is run, and what cannot be read proposes nothing.

Covers a team's playbooks, the examples that ship with vmatrix, and vmatrix's own playbooks.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from harness.errors import BadInput
from harness.paths import MATRIX, SETTINGS, is_project, packaged_dir
from harness.spec.loader import load_spec
from harness.spec.models import Spec
from harness.spec.plays import hosts_of, mentions, plays_of
from harness.spec.product_kinds import KUBECONFIG
from harness.spec.schemas import schemas
from harness.spec.shape import unknown
from harness.spec.usual_names import FIRST, FOLDERS, GROUPS, OF_ANSIBLE, PHASES, WHOLE

HEAD = "# yaml-language-server: $schema=../docs/schemas/{name}.json\n"
IGNORE, PIPELINE = ".gitignore", ".gitlab-ci.yml"
GITLAB = "platform/vmatrix"  # stands for where vmatrix is on a GitLab, until somebody says so

IGNORED = "# Results of `vmatrix run`.\nruns/\n"
SETTINGS_TEXT = """\
# Settings of vmatrix; `vmatrix config` lists all of them. This file marks the project, so keep it even if it is empty.
# timeout_scale: 2
"""
PRODUCT_TEXT = """\
# The deployment code under test: its folder in the project, and how to call what is in it.
product:
  name: {name}
  directory: {directory}
"""
GROUPS_TEXT = """\
  # What your plays call the groups of vmatrix. Machines are in the groups of both names.
  groups: {groups}
"""
WITHOUT_ETCD_TEXT = """\
  # No play names a group of machines for etcd: topologies that have such machines are left out of the plan.
"""
GUESSED_TEXT = """\
  # No play names control planes and nodes as others do. Say here which of these groups have which machines:
{guessed}
"""
OTHERS_TEXT = """\
  # Your plays also name these groups, in which vmatrix puts no machine:
{others}
"""
ANSIBLE_TEXT = """\
  # How Ansible is called. vmatrix installs what `install` and `requirements` name, once.
  ansible: {ansible}
"""
PHASES_TEXT = """\
  # The playbook of each phase of a cluster's life. Scenarios with other phases are left out of the plan.
  phases:
"""
HAND_OUT = "vmatrix-deploy.yml"
HAND_OUT_TEXT = """\
---
# Runs your playbook, then does what vmatrix asks of a deployment: it writes the kubeconfig of the cluster's admin to a
# path on the host that runs vmatrix, with an address at which that host reaches the control plane.
- name: Deploy
  ansible.builtin.import_playbook: {playbook}

- name: Hand out the kubeconfig
  hosts: control_plane[0]
  gather_facts: false
  become: true
  tasks:
    - name: Look for it where kubeadm, k3s, RKE2 and k0s leave it; add your own place
      ansible.builtin.stat:
        path: "{{{{ item }}}}"
      loop:
        - /etc/kubernetes/admin.conf
        - /etc/rancher/k3s/k3s.yaml
        - /etc/rancher/rke2/rke2.yaml
        - /var/lib/k0s/pki/admin.conf
      register: vmatrix_places

    - name: Read it
      ansible.builtin.slurp:
        path: "{{{{ (vmatrix_places.results | selectattr('stat.exists') | first).item }}}}"
      register: vmatrix_kubeconfig

    - name: Write it with the control plane's address
      ansible.builtin.copy:
        content: "{{{{ vmatrix_kubeconfig.content | b64decode | regex_replace(server, 'https://' ~ address) }}}}"
        dest: "{{{{ cluster_kubeconfig_path }}}}"
        mode: "0600"
      vars:
        server: 'https://(\\[[^]]*\\]|[^:/\\s]+)'
        address: "{{{{ '[' ~ ansible_host ~ ']' if ':' in ansible_host else ansible_host }}}}"
      delegate_to: localhost
      connection: local
      become: false
"""
VARS_TEXT = """\
  # Variables of every cell. The values of a cell add more, such as cluster_kubernetes_version: `vmatrix explain CELL`
  # shows all of them.
  vars:
"""
TIERS_TEXT = """\
# Which cells run together. This cell has one control plane and one worker. `vmatrix list --origin` shows the values
# that there are. For a cell on a KubeVirt cluster, replace debian-13 by debian-13-cloud. Add cells to `pinned`, or add
# `cover` to plan cells for every pair of values; then run `vmatrix plan --write`.
"""
PIPELINE_TEXT = """\
# Runs cells for merge requests and at night; vmatrix's docs/gitlab.md explains the inputs.
include:
  - project: {gitlab} # where vmatrix is on your GitLab
    file: templates/vmatrix.yml
    ref: main
    inputs:
      vmatrix_project: {gitlab}
{inputs}stages: [lint, plan, smoke, matrix, report]
"""
OWN_INPUTS = """\
      smoke_tier: {tier}
      tier: {tier}
      nightly_tier: {tier}
"""


EXAMPLES = "examples"
NOT_COPIED = ("runs",)  # what is of the example, and not of a project that begins with it
SCHEMA = re.compile(r"^(# yaml-language-server: \$schema=)\S*/(docs/schemas/\S+)$", re.MULTILINE)


def examples() -> tuple[str, ...]:
    """Return the names of the examples that are projects."""
    return tuple(sorted(file.parts[-3] for file in (packaged_dir() / EXAMPLES).glob(f"*/{MATRIX}/product.yml")))


def kind_of(name: str) -> str:
    """Return the kind of an example's product."""
    return str(_product(name).get("kind", "ansible"))


def tier_of(name: str) -> str:
    """Return an example's first tier."""
    file = packaged_dir() / EXAMPLES / name / MATRIX / "tiers.yml"
    return str(next(iter(yaml.safe_load(file.read_text(encoding="utf-8"))["tiers"])))


def files(name: str) -> dict[str, tuple[str, int]]:
    """Return the text and the mode of each file of an example, by its path in the project."""
    root = packaged_dir() / EXAMPLES / name
    files_by_path: dict[str, tuple[str, int]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        parts = path.relative_to(root).parts
        if parts[0] not in NOT_COPIED and "__pycache__" not in parts:
            text = SCHEMA.sub(r"\1../\2", path.read_text(encoding="utf-8"))
            files_by_path["/".join(parts)] = (text, 0o755 if path.stat().st_mode & 0o100 else 0o644)
    return files_by_path


def _product(name: str) -> Any:
    file: Path = packaged_dir() / EXAMPLES / name / MATRIX / "product.yml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))["product"]


ETCD, NODES = "etcd", ("control_plane", "node")
EVERYWHERE = "all"
BESIDE = {  # by key of `ansible`: the usual files
    "install": ("requirements.txt",),
    "requirements": ("requirements.yml", "collections/requirements.yml", "roles/requirements.yml"),
    "config": ("ansible.cfg",),
}


@dataclass(frozen=True)
class TeamPlaybooks:
    """What a folder proposes: playbooks by phase, names by group (of all groups, or none), keys of `ansible`.

    others: groups that its plays name and that vmatrix knows no machines for.
    guessed: groups that are among the names only because no play names control planes or nodes as others do.
    hands_out: whether any of its files mentions the path to which an admin's kubeconfig belongs.
    """

    folder: str
    phases: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str | list[str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    ansible: dict[str, Any] = field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    hands_out: bool = True


def look(project: Path, folder: str | None = None) -> TeamPlaybooks:
    """Look at a folder of a project; without one, at the first of the usual folders with a playbook that deploys."""
    proposals = [_look(project, place) for place in ((folder,) if folder is not None else FOLDERS)]
    return next((proposal for proposal in proposals if FIRST in proposal.phases), proposals[0])


def named(project: Path, folder: str, phases: dict[str, str]) -> TeamPlaybooks:
    """Return a folder's proposal with other playbooks than it proposes."""
    there = project / folder
    groups = _groups(there, phases.values())
    hands_out = mentions((KUBECONFIG,), there, None)
    return TeamPlaybooks(folder, phases, groups.names, groups.others, _ansible(there), groups.guessed, hands_out)


def _look(project: Path, folder: str) -> TeamPlaybooks:
    stems = {path.stem.replace("_", "-"): path.name for path in _files(project / folder) if plays_of(path)}
    phases = {
        phase: next(stems[name] for name in names if name in stems)
        for phase, names in PHASES.items()
        if not stems.keys().isdisjoint(names)
    }
    return named(project, folder, phases)


def _files(folder: Path) -> list[Path]:
    return sorted(path for ending in ("yaml", "yml") for path in folder.glob(f"*.{ending}"))


@dataclass(frozen=True)
class _Groups:
    names: dict[str, str | list[str]]
    others: tuple[str, ...]
    guessed: tuple[str, ...] = ()


def _groups(folder: Path, playbooks: Iterable[str]) -> _Groups:
    """Return the names of our groups, if plays do not do with ours, and the other groups that they name.

    Machines that no play would be about get the groups of which nobody knows what they are.
    """
    hosts = dict.fromkeys(name for playbook in playbooks for name in hosts_of(folder / playbook, set()))
    ours = {group: next((name for name in names if name in hosts), None) for group, names in GROUPS.items()}
    whole = tuple(name for name in WHOLE if name in hosts)
    known = {name for names in GROUPS.values() for name in names} | {*OF_ANSIBLE, *WHOLE}
    others = tuple(name for name in hosts if name not in known)
    reached = bool(whole) or EVERYWHERE in hosts
    guessed = others if not reached and None in (ours[group] for group in NODES) else ()
    strange = bool(whole or guessed) or any(name is not None and name != group for group, name in ours.items())
    if not strange and (ours[ETCD] is not None or reached or not any(ours.values())):
        return _Groups({}, others)
    names = {group: _names(ours[group], () if group == ETCD else whole, group, guessed) for group in ours}
    return _Groups(names, () if guessed else others, guessed)


def _names(own: str | None, whole: tuple[str, ...], group: str, guessed: tuple[str, ...]) -> str | list[str]:
    """Return a group's names in the file: etcd may have none, the others have their own name then."""
    names = [own] if own is not None else list(guessed) if group in NODES else []
    names += whole
    if not names and group in NODES:
        names = [group]
    return names[0] if len(names) == 1 else names


def _ansible(folder: Path) -> dict[str, Any]:
    """Return the keys of `ansible` for what lies beside the playbooks, or in the folder above them."""
    keys: dict[str, Any] = {}
    for key, names in BESIDE.items():
        paths = (f"{above}{name}" for above in ("", "../") for name in names)
        file = next((path for path in paths if (folder / path).is_file()), None)
        if file is not None and (key != "install" or _installs_ansible(folder / file)):
            keys[key] = file
    return keys


def _installs_ansible(file: Path) -> bool:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.strip().lower().startswith("ansible") for line in lines)


TIER = "smoke"
ADDRESSES = ("cluster_pod_cidr", "cluster_service_cidr", "cluster_dns_domain")  # variables that checks know, too


def product_text(name: str, playbooks: TeamPlaybooks, spec: Spec) -> str:
    """Return product.yml of a team's playbooks."""
    phases = {phase: playbooks.phases[phase] for phase in spec.product.phases if phase in playbooks.phases}
    parts = [PRODUCT_TEXT.format(name=_flow(name), directory=_flow(playbooks.folder))]
    if playbooks.groups:
        parts.append(GROUPS_TEXT.format(groups=_flow(playbooks.groups)))
        if not playbooks.groups[ETCD]:
            parts.append(WITHOUT_ETCD_TEXT)
    if playbooks.guessed:
        parts.append(GUESSED_TEXT.format(guessed=_comment(", ".join(playbooks.guessed))))
    if playbooks.others:
        parts.append(OTHERS_TEXT.format(others=_comment(", ".join(playbooks.others))))
    if playbooks.ansible:
        parts.append(ANSIBLE_TEXT.format(ansible=_flow(playbooks.ansible)))
    parts.append(PHASES_TEXT)
    parts += [f"    {phase}: {_flow({'playbook': file})}\n" for phase, file in phases.items()]
    parts.append(VARS_TEXT)
    parts += [f"    {variable}: {_flow(spec.product.vars[variable])}\n" for variable in ADDRESSES]
    return "".join(parts)


def tiers_text(spec: Spec) -> str:
    """Return tiers.yml with the first cell of the packaged smoke tier, which the embedded infra can run.

    Axes on which it has the default are not named.
    """
    tier = spec.tiers[TIER]
    usual = {axis.name: axis.default for axis in spec.axes}
    named = {axis: value for axis, value in tier.pinned[0].items() if value != usual[axis]}
    cell = ",\n         ".join(f"{axis}: {_flow(value)}" for axis, value in named.items())
    return TIERS_TEXT + (
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
    gitlab: str = GITLAB

    @property
    def tier(self) -> str:
        """The tier to run first."""
        return tier_of(self.begins) if isinstance(self.begins, str) else TIER

    def files(self) -> Files:
        """Return the text and the mode of each file, by its path in the project.

        Raises:
            BadInput: the folder is a project already, or a phase, a playbook or a path cannot be.
        """
        refuse_project(self.directory)
        if self.gitlab and not GITLAB_PATH.fullmatch(self.gitlab):
            raise BadInput(
                f"{self.gitlab!r} is not a path of a GitLab project", hint="--gitlab GROUP/PROJECT, or `none`"
            )
        made = self._beginning()
        inputs = OWN_INPUTS.format(tier=self.tier) if self.begins is not None else ""
        if self.gitlab:
            made.setdefault(PIPELINE, (PIPELINE_TEXT.format(gitlab=self.gitlab, inputs=inputs), 0o644))
        made.setdefault(IGNORE, (IGNORED, 0o644))
        known = schemas()
        described = [Path(name).stem for name in made if name.startswith(f"{MATRIX}/") and Path(name).stem in known]
        return made | {f"docs/schemas/{name}.json": (known[name], 0o644) for name in described}

    def _beginning(self) -> Files:
        if self.begins is None:
            return {SETTINGS: (SETTINGS_TEXT, 0o644)}
        if isinstance(self.begins, str):
            return files(self.begins)
        spec = load_spec(packaged_dir() / MATRIX, expired_ok=True)
        refuse_playbooks(self.directory, self.begins, spec)
        begins, hand_out = _handing_out(self.begins)
        made = {"product": product_text(self.name, begins, spec), "tiers": tiers_text(spec)}
        matrix = {f"{MATRIX}/{name}.yml": (HEAD.format(name=name) + text, 0o644) for name, text in made.items()}
        return {**matrix, **hand_out}


def _handing_out(begins: TeamPlaybooks) -> tuple[TeamPlaybooks, Files]:
    """Return playbooks after which there is an admin's kubeconfig, with a playbook that is made for it where needed."""
    if begins.hands_out:
        return begins, {}
    text = HAND_OUT_TEXT.format(playbook=json.dumps(begins.phases[FIRST], ensure_ascii=False))
    path = str(PurePosixPath(begins.folder) / HAND_OUT)
    phases = {**begins.phases, FIRST: HAND_OUT}
    return replace(begins, phases=phases), {path: (text, 0o644)}


def refuse_project(directory: Path) -> None:
    """Refuse a folder that is a project already, or no folder. Raises BadInput."""
    if is_project(directory):
        raise BadInput(f"{directory} is a project already", hint="`vmatrix config` shows its files")
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"{directory} is not a folder", hint="name a folder, which may be new")
