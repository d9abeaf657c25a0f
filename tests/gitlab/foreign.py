"""A team's repository with one `include:`, and vmatrix's own beside it on the small server: what pipelines start from.

GitLab's server is a folder for gitlab-ci-local, which reads the include; jobs clone vmatrix from the small server.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from harness.paths import cache_dir, project_dir
from tests.gitlab.checkout import HISTORY, VARIABLES, Checkout
from tests.gitlab.server.model import Project, Variable
from tests.gitlab.server.projects import add_project
from tests.gitlab.server.serve import RunningServer

VMATRIX = "platform/vmatrix"
TEAM = "platform/clusters"
ORIGIN = "https://gitlab.example.org"
ADDRESSES = (f"{ORIGIN}/", f"{ORIGIN}:443/", "https://gitlab-ci-token:@gitlab.example.org/")
SYSTEMS = {"one": ("debian-13",), "two": ("debian-13", "debian-12")}  # of the tiers' machines
# An infra cluster that is reached by its API, and whose machines are the embedded KubeVirt's.
INFRA = "kubevirt-offline"
INIT_SECONDS = 120.0


@dataclass(frozen=True)
class Foreign:
    """The team's repository, and its project on the server."""

    checkout: Checkout
    project: Project


def one_machine(*, system: str = "debian-13", proxy: str = "nftables") -> dict[str, str]:
    """Return a cell of one machine, as tiers pin it."""
    return {
        "kubernetes": "1.36.3",
        "os": system,
        "runtime": "containerd-2.4",
        "network": "flannel",
        "proxy": proxy,
        "topology": "all-in-one",
        "scenario": "fresh",
        "source": "mirror",
        "addons": "core",
    }


def tiers(suites: list[str]) -> str:
    """Return the tiers `one` and `two`, of other cells with one machine each, as lines below `tiers:`."""
    budget = {"machines": 1, "minutes": 30}
    two = [one_machine(proxy="iptables"), one_machine(system="debian-12")]
    made = {
        "one": {"label": "one cell", "pinned": [one_machine()], "suites": suites, "budget": {"cells": 1, **budget}},
        "two": {"label": "two cells", "pinned": two, "suites": suites, "budget": {"cells": 2, **budget}},
    }
    text = yaml.safe_dump(made, sort_keys=False)
    return "".join(f"  {line}\n" for line in text.splitlines())


def clusters(folder: Path, *, suites: list[str], inputs: Mapping[str, str] | None = None) -> Checkout:
    """Make the team's repository: vmatrix's playbooks in a folder of theirs, and what `vmatrix init` writes.

    Args:
        suites: of the cells in the tiers `one` and `two`.
        inputs: of the include, besides those that are there or in their place.
    """
    repository = folder / "clusters"
    shutil.copytree(project_dir() / "playbooks", repository / "deploy")
    program = Path(sys.executable).with_name("vmatrix")
    words: list[str | Path] = [
        program,
        *f"init --playbooks deploy --phase deploy=cluster.yml --gitlab {VMATRIX}".split(),
    ]
    subprocess.run(words, cwd=repository, check=True, capture_output=True, timeout=INIT_SECONDS)
    with (repository / "matrix" / "tiers.yml").open("a", encoding="utf-8") as file:
        file.write(tiers(suites))
    pipeline = repository / ".gitlab-ci.yml"
    content = yaml.safe_load(pipeline.read_text(encoding="utf-8"))
    content["include"][0]["inputs"] |= inputs or {}
    pipeline.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    infras = yaml.safe_load((project_dir() / "matrix" / "infras.yml").read_text(encoding="utf-8"))
    infras["infras"][INFRA]["offers"] += ["host-kernel", "segment"]
    (repository / "matrix" / "infras.yml").write_text(yaml.safe_dump(infras, sort_keys=False), encoding="utf-8")
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main", str(repository)], check=True, timeout=60)
    (repository / ".git" / "info" / "exclude").write_text(f"{VARIABLES}\n.gitlab-ci-local/\n", encoding="utf-8")
    made = Checkout(repository)
    made.git("remote", "add", "origin", f"{ORIGIN}/team/clusters.git")  # not below what git finds in a folder
    made.commit("Our playbooks")
    return made


def served_vmatrix(folder: Path, pristine: Checkout, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have vmatrix's repository where gitlab-ci-local looks for the include; return its folder."""
    served = folder / "include" / f"{VMATRIX}.git"
    shutil.copytree(pristine.directory, served, symlinks=True)
    settings = folder / "gitconfig"
    settings.write_text(
        "".join(f'[url "file://{served.parent}/"]\n\tinsteadOf = {address}platform/\n' for address in ADDRESSES),
        encoding="utf-8",
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    return served


def on_server(server: RunningServer, team: Checkout, vmatrix: Path, folder: Path, *variables: Variable) -> Foreign:
    """Make both projects on the server, and give the team's the variables of its group."""
    known = server.call(lambda forge: [one.path for one in forge.projects])
    if VMATRIX not in known:
        own = add_project(server, VMATRIX, folder)
        Checkout(vmatrix).git("push", "--quiet", str(own.bare), "HEAD:refs/heads/main")
    return Foreign(team, add_project(server, f"{TEAM}-{len(known)}", folder, variables))


def on_this_host() -> list[Variable]:
    """Return variables for jobs of a runner on this host: its caches, so that no job builds Kubernetes first."""
    given = {"XDG_CACHE_HOME": str(cache_dir().parent), "VMATRIX_TIMEOUT_SCALE": "3", **HISTORY}
    return [Variable(name, value) for name, value in given.items()]
