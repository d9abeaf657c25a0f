"""How product.yml wants its playbooks to be called is how they are called: really, by ansible-playbook."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cell.product.kinds import kind_of
from harness.cell.product.playbooks import changes_of
from harness.cell.product.protocol import PhaseOutcome, PhaseRun
from harness.machines import inventory
from harness.model import Cell, Environment, Machine, Phase, PlannedMachine
from harness.spec.models import Product
from tests.unit.shipped_timeouts import TIMEOUTS

SECONDS = 120.0  # against hanging: a run takes about two
THEIRS = {"hosts": {"cp-0": {"ansible_host": "192.0.2.1"}}}  # an address that the cell's inventory has to win over


@pytest.fixture(autouse=True)
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have control directories below the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


def product(**more: Any) -> Product:
    given = {"name": "p", "directory": "deploy", "phases": {"deploy": {"playbook": "site.yml"}}, **more}
    return Product.model_validate(given)


def deploy(project: Path, wanted: Product, *, again: bool = False, **variables: Any) -> tuple[PhaseOutcome, str]:
    """Run the phase of a product on this host as its machine; return the outcome and the log."""
    machine = Machine(PlannedMachine("cp-0", ("control_plane", "etcd"), 1, 512, 10, "i"), "127.0.0.1", 22, "root")
    cell = Cell("c", {}, "fresh", (Phase("deploy", machines=("cp-0",)),), (), {})
    environment = Environment("run111", cell, 1, "ns", (machine,), project / "run" / "c", project / "key")
    inventory.write(environment, {"ansible_connection": "local", **variables}, wanted)
    log = environment.files.log("deploy")
    kind = kind_of(wanted, project)
    kind.prepare(lambda _: None, TIMEOUTS)
    run = PhaseRun(cell.phases[0], "deploy", environment, dict(variables), SECONDS, log, lambda _: None, again=again)
    return kind.run(run), log.read_text(encoding="utf-8")


def test_groups_variables_arguments_and_settings_are_the_products_own_and_addresses_the_cells(tmp_path: Path) -> None:
    words = "{{ colour }} {{ size }} {{ group_names | sort | join('+') }} at {{ ansible_host }}"
    says = {"ansible.builtin.debug": {"msg": words}}
    tasks = [says, {**says, "tags": "never"}, {"ansible.builtin.debug": {"msg": "left out"}, "tags": "loud"}]
    write(tmp_path / "deploy" / "site.yml", [{"hosts": "kube_control_plane", "gather_facts": False, "tasks": tasks}])
    write(tmp_path / "deploy" / "group_vars" / "kube_control_plane.yml", {"colour": "not this one"})
    write(tmp_path / "theirs" / "group_vars" / "kube_control_plane.yml", {"size": "large"})
    write(tmp_path / "theirs" / "extra" / "hosts.yml", {"all": {"vars": {"colour": "blue"}, **THEIRS}})
    write(tmp_path / "theirs" / "own.cfg", "[defaults]\nstdout_callback = ansible.builtin.oneline\n")
    wanted = product(
        groups={"control_plane": "kube_control_plane", "etcd": [], "node": "kube_node"},
        ansible={
            "config": "../theirs/own.cfg",
            "inventories": ["../theirs/extra", "../theirs/group_vars"],
            "args": ["-e", "colour=red"],
            "become": True,
        },
        phases={"deploy": {"playbook": "site.yml", "args": ["--skip-tags", "loud"]}},
    )
    outcome, log = deploy(tmp_path, wanted)
    assert outcome == PhaseOutcome("site.yml", frozenset({"cp-0"}))
    assert "red large control_plane+etcd+kube_control_plane at 127.0.0.1" in log
    assert "left out" not in log
    first = log.splitlines()[0]
    assert f"ANSIBLE_CONFIG={tmp_path}/deploy/../theirs/own.cfg" in first
    assert "--become -e colour=red --skip-tags loud" in first


def test_another_ansible_runs_the_playbooks(tmp_path: Path) -> None:
    program = write(tmp_path / "deploy" / "bin" / "ansible-playbook", "#!/bin/sh\necho this is another one: $0\n")
    program.chmod(0o755)
    write(tmp_path / "deploy" / "site.yml", [])
    outcome, log = deploy(tmp_path, product(ansible={"path": "bin"}))
    assert f"this is another one: {tmp_path}/deploy/bin/ansible-playbook" in log
    assert outcome.touched == frozenset()


def test_the_mark_of_the_sources_is_their_folder_in_every_path(tmp_path: Path) -> None:
    write(tmp_path / "theirs" / "bin" / "ansible-playbook", "#!/bin/sh\n").chmod(0o755)
    wanted = product(
        directory="{sources}",
        sources={"path": "theirs"},
        ansible={"path": "{sources}/bin"},
        phases={"deploy": {"playbook": "{sources}/site.yml"}},
    )
    _, log = deploy(tmp_path, wanted)
    assert f"{tmp_path}/theirs/site.yml" in log.splitlines()[0]


def test_a_second_run_says_which_tasks_changed_something(tmp_path: Path) -> None:
    same = {"name": "same", "ansible.builtin.debug": {"msg": "nothing"}}
    other = {**same, "name": "other", "changed_when": True}
    play = {"name": "all", "hosts": "all", "gather_facts": False, "tasks": [same, other]}
    write(tmp_path / "deploy" / "site.yml", [play])
    first, _ = deploy(tmp_path, product())
    second, log = deploy(tmp_path, product(), again=True)
    assert first.changed == ()
    assert second.changed == ("task [other] of play [all] on cp-0",)
    assert "changed=1" in log


def test_where_our_plugin_says_nothing_the_recap_counts(tmp_path: Path) -> None:
    lines = [f"{host} : ok=3 changed={n} unreachable=0 failed=0" for host, n in (("cp-0", 2), ("w-0", 0))]
    log = write(tmp_path / "log", "\n".join(["PLAY RECAP ***", *lines]))
    assert changes_of(tmp_path / "missing", log) == ("2 tasks on cp-0, by Ansible's recap",)
