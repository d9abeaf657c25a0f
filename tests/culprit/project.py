"""A project for nights with planted faults: few axes of the matrix, small cells, and the playbooks in a repository.

The playbooks are those of this checkout. Each fault comes with a commit of its own, among commits that change nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.paths import packaged_dir
from harness.report.results import RunResult, load

VMATRIX = Path(sys.executable).parent / "vmatrix"
GIT = shutil.which("git") or "git"
TIER = "night"
FOLLOW_UPS = 8
COMMAND_SECONDS = 7200.0  # against hanging: without a cache the artifacts are built first
# The values that are left of the axes. Kubernetes 1.35 is the last that the release of CRI-O runs.
CHOSEN: Mapping[str, Sequence[str]] = {
    "kubernetes": ["1.35.4"],
    "os": ["debian-13"],
    "runtime": ["crio-1.34", "containerd-2.4"],
    "network": ["flannel"],
    "proxy": ["iptables", "nftables"],
    "topology": ["all-in-one"],
    "scenario": ["fresh"],
    "source": ["mirror"],
    "addons": ["core", "network-policies"],
    "product": ["playbooks"],
    "profile": ["plain"],
    "kubeadm": ["plain"],
    "ip": ["ipv4", "dual"],
}
PODS = {
    "name": "pods",
    "label": "Pods of a node",
    "default": "usual",
    "values": [
        {"id": "usual", "slug": "u", "label": "as many as usual", "class": "usual"},
        {"id": "few", "slug": "f", "label": "few", "class": "few", "vars": {"cluster_kubelet_config": {"maxPods": 60}}},
    ],
}


OWNERS = {"addons": "@addons", "postinstall": "@deployers"}


@dataclass(frozen=True)
class Fault:
    """What a commit adds to a role, for cells with some values; without any, for one deployment in a while.

    title: of the commit.  role: whose tasks end with the task then.  check: the one that fails by it.
    """

    title: str
    role: str
    command: str
    check: str
    values: Mapping[str, str]

    @property
    def owner(self) -> str:
        """Return who owns the role, as CODEOWNERS says."""
        return OWNERS[self.role]


FAULTS = (
    Fault(
        "Let operators change the kubelet's settings",
        "postinstall",
        "chmod 0666 /var/lib/kubelet/config.yaml",
        "nodes: test_only_root_reads_keys_and_workers_have_none_of_the_control_plane",
        {"proxy": "iptables"},
    ),
    Fault(
        "Keep the certificates as kubeadm made them",
        "addons",
        "cp -a /etc/kubernetes/pki /etc/kubernetes/pki.old",
        "nodes: test_secrets_are_only_where_they_are_needed",
        {"runtime": "crio-1.34", "ip": "dual"},
    ),
    Fault(
        "Show which nodes are full",
        "postinstall",
        "/usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf label node --all example.k8s.io/full=true",
        "cluster: test_nodes_have_no_labels_and_annotations_but_those_of_their_role",
        {"addons": "network-policies", "pods": "few"},
    ),
    Fault(
        "Warm the page cache",
        "addons",
        "systemd-run --unit=warm-up /bin/false",
        "nodes: test_no_unit_has_failed",
        {},
    ),
)
CONDITIONS = {
    ("proxy", "iptables"): "cluster_kube_proxy_mode == 'iptables'",
    ("runtime", "crio-1.34"): "cluster_container_runtime == 'crio'",
    ("ip", "dual"): "cluster_ipv6_pod_cidr | length > 0",
    ("addons", "network-policies"): "cluster_kube_router_version | length > 0",
    ("pods", "few"): "cluster_kubelet_config.maxPods is defined",
}
# Deployments between two in which what has no values happens, and the first of them. They are counted in a file.
EVERY, FIRST = 11, 3


@dataclass(frozen=True)
class NightProject:
    """A project in a repository of its own."""

    root: Path
    infra: str

    @staticmethod
    def made(root: Path, infra: str) -> NightProject:
        """Make the project, with a first commit in which nothing is wrong."""
        made = NightProject(root, infra)
        packaged = packaged_dir()
        shutil.copytree(packaged / "playbooks", root / "playbooks")
        (root / "matrix").mkdir()
        axes = yaml.safe_load((packaged / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
        left = [{"name": a["name"], "values": [*_removed(a["name"], a["values"])]} for a in axes]
        made.write("matrix/axes.yml", {"extends": "default", "axes": [*(a for a in left if a["values"]), PODS]})
        tier = {
            "label": "pairs of what is left",
            "cover": {"strength": 2},
            "follow_up": FOLLOW_UPS,
            "bisect": True,
            "rotate": False,
            "suites": ["nodes", "cluster"],
            "budget": {"cells": 12, "machines": 1, "minutes": 30},
        }
        made.write("matrix/tiers.yml", {"extends": "default", "tiers": {TIER: tier}})
        product = {"directory": "playbooks", "name": "playbooks with planted faults"}
        made.write("matrix/product.yml", {"extends": "default", "product": product})
        (root / ".gitignore").write_text("runs/\n", encoding="utf-8")
        owners = [f"/playbooks/roles/{role}/ {owner}\n" for role, owner in OWNERS.items()]
        (root / "CODEOWNERS").write_text("".join(owners), encoding="utf-8")
        made.git("init", "-q", "-b", "main")
        made.commit("Begin")
        return made

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file of the matrix."""
        (self.root / name).write_text(yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")

    def git(self, *words: str) -> str:
        """Run git in the repository; return what it prints."""
        who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
        who |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
        env = {**os.environ, **who}
        done = subprocess.run([GIT, *words], cwd=self.root, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, title: str) -> None:
        """Commit all that changed."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", title)

    def plant(self, faults: Sequence[Fault] = FAULTS) -> None:
        """Commit each fault, with a commit that changes nothing between two."""
        for number, fault in enumerate(faults):
            if number:
                self._remark(number)
            file = self.root / "playbooks" / "roles" / fault.role / "tasks" / "main.yml"
            task = yaml.safe_dump([self._task(fault)], sort_keys=False, width=1000)
            file.write_text(f"{file.read_text(encoding='utf-8')}\n{task}", encoding="utf-8")
            self.commit(fault.title)

    def _remark(self, number: int) -> None:
        changes = self.root / "playbooks" / "CHANGELOG.md"
        changes.write_text(f"{changes.read_text(encoding='utf-8')}\n- Remark {number}.\n", encoding="utf-8")
        self.commit(f"Add remark {number}")

    def _task(self, fault: Fault) -> dict[str, Any]:
        counted = f"printf x >>{self.deployments}; wc -c <{self.deployments}"
        chance = f'lookup("pipe", "{counted}") | int % {EVERY} == {FIRST}'
        when = [CONDITIONS[value] for value in fault.values.items()] or [chance]
        return {"name": fault.title, "ansible.builtin.command": fault.command, "when": when}

    @property
    def deployments(self) -> Path:
        """Return the file with a character for each deployment since what happens by chance was planted."""
        return self.root.parent / "deployments"

    def night(self) -> tuple[int, RunResult]:
        """Run the tier; return the exit code and what the run came to."""
        before = set(self._runs())
        done = self.vmatrix("run", "--tier", TIER, "--parallel", "2", "--infra-name", self.infra)
        (made,) = set(self._runs()) - before
        return done, load(made)

    def vmatrix(self, *words: str) -> int:
        """Run a command of vmatrix in the project; return its exit code. It prints what it prints."""
        call = [str(VMATRIX), *words]
        return subprocess.run(
            call, cwd=self.root, stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False
        ).returncode

    def _runs(self) -> Iterator[Path]:
        return (file.parent for file in self.root.glob("runs/*/results.jsonl"))


def _removed(axis: str, values: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    return ({"id": value["id"], "remove": True} for value in values if value["id"] not in CHOSEN[axis])
