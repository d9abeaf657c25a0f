"""A product's playbook, run for a cell: with the product's own settings and plugins, and nothing of other cells."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import yaml

from harness.cell.product.playbooks import inputs_of
from harness.errors import ProductError
from harness.machines.runner import callbacks
from harness.machines.runner.call import COLLECTIONS, OWN_CALLBACKS, ROLES, AnsibleCall, Listener, variables
from harness.machines.runner.playbook import run_playbook
from harness.machines.runner.playbook_output import ended_by
from harness.model import Cell, Environment, Machine, PlannedMachine

SECONDS = 120.0  # against hanging: a run takes about two
CONFIG = """
[defaults]
callback_plugins = own/callbacks
fact_caching = jsonfile
fact_caching_connection = {shared}
fact_caching_timeout = 86400
stdout_callback = ansible.builtin.minimal
"""
PLUGIN = """
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "mine"

    def v2_playbook_on_stats(self, stats):
        self._display.display("the product's own callback was here")
"""


@pytest.fixture(autouse=True)
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have control directories below the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("CALLBACK_PLUGINS", "CACHE_PLUGIN", "SSH_ARGS", "SSH_CONTROL_PATH"):
        monkeypatch.delenv(f"ANSIBLE_{name}", raising=False)


def environment(folder: Path, cell: str = "one") -> Environment:
    """Return an attempt at a cell whose machine is this host."""
    machine = Machine(PlannedMachine("cp-0", ("control_plane",), 1, 512, 10, "i"), "127.0.0.1", 22, "root")
    made = Environment(
        "run111", Cell(cell, {}, "fresh", (), (), {}), 1, cell, (machine,), folder / cell, folder / "key"
    )
    for path, content in (
        (made.files.hosts, {"all": {"hosts": {"cp-0": {"ansible_connection": "local"}}}}),
        (made.files.variables, {"cell": cell}),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return made


def product(folder: Path, tasks: list[object]) -> Path:
    """Write a product with settings and a plugin of its own; return its playbook."""
    (folder / "product" / "own" / "callbacks").mkdir(parents=True)
    (folder / "product" / "own" / "callbacks" / "mine.py").write_text(PLUGIN, encoding="utf-8")
    (folder / "product" / "ansible.cfg").write_text(CONFIG.format(shared=folder / "shared"), encoding="utf-8")
    playbook = folder / "product" / "cluster.yml"
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")
    return playbook


def deploy(cell: Environment, playbook: Path) -> str:
    """Run a playbook as a phase; return what Ansible printed."""
    log = cell.files.log("deploy")
    run_playbook(inputs_of(cell, log), playbook, timeout=SECONDS, log=log)
    return log.read_text(encoding="utf-8")


def test_the_failure_that_ended_the_phase_is_blamed_and_not_one_that_was_rescued(tmp_path: Path) -> None:
    first = {"name": "look for etcd", "ansible.builtin.command": "false"}
    mend = {"name": "mend", "ansible.builtin.debug": {"msg": "there was none"}}
    last = {"name": "start", "ansible.builtin.fail": {"msg": "it does not start"}}
    playbook = product(tmp_path, [{"block": [first], "rescue": [mend]}, last])
    cell = environment(tmp_path)
    with pytest.raises(ProductError) as failed:
        deploy(cell, playbook)
    assert failed.value.summary == "task [start] failed on cp-0: it does not start"
    log = cell.files.log("deploy").read_text(encoding="utf-8")
    assert "the product's own callback was here" in log
    assert cell.files.failures("deploy").is_file()


def test_a_later_run_of_a_phase_is_not_blamed_for_an_earlier_ones_failure(tmp_path: Path) -> None:
    cell = environment(tmp_path)
    for number, words in enumerate(("first", "second")):
        playbook = product(tmp_path / str(number), [{"name": "do", "ansible.builtin.fail": {"msg": words}}])
        with pytest.raises(ProductError, match=f"cp-0: {words}$"):
            deploy(cell, playbook)


def test_cells_do_not_share_facts_that_the_product_keeps_for_all(tmp_path: Path) -> None:
    known = {"name": "say", "ansible.builtin.debug": {"msg": "known: {{ whose | default('nobody') }}"}}
    keep = {"name": "keep", "ansible.builtin.set_fact": {"whose": "{{ cell }}", "cacheable": True}}
    playbook = product(tmp_path, [known, keep])
    one, two = environment(tmp_path, "one"), environment(tmp_path, "two")
    assert "known: nobody" in deploy(one, playbook)
    assert "known: one" in deploy(one, playbook)  # a later phase of the cell's
    assert "known: one" not in deploy(two, playbook)
    assert not (tmp_path / "shared").exists()


def told(folder: Path, config: str) -> dict[str, str]:
    (folder / "product").mkdir()
    (folder / "product" / "ansible.cfg").write_text(config, encoding="utf-8")
    made = inputs_of(environment(folder), folder / "deploy.log")
    return variables(made, folder / "product" / "ansible.cfg", AnsibleCall(), folder / "product")


def test_sockets_of_connections_are_the_cells_own_whatever_the_product_says(tmp_path: Path) -> None:
    config = "[ssh_connection]\nssh_args = -o ControlMaster=auto -o ControlPath=/tmp/%h -C\ncontrol_path = /tmp/a-%%h\n"
    variables = told(tmp_path, config)
    assert variables["ANSIBLE_SSH_ARGS"] == "-o ControlMaster=auto -C"
    assert variables["ANSIBLE_SSH_CONTROL_PATH"] == "%(directory)s/a-%%C"
    assert variables["ANSIBLE_SSH_CONTROL_PATH_DIR"].startswith(str(tmp_path))


def test_what_tasks_on_this_host_leave_is_the_cells_own(tmp_path: Path) -> None:
    variables = told(tmp_path, "")
    for name in ("TMPDIR", "KUBECACHEDIR"):
        assert Path(variables[name]).is_relative_to(tmp_path)
    assert Path(variables["TMPDIR"]).is_dir()


def test_what_the_product_says_of_connections_stays_where_it_names_no_folder(tmp_path: Path) -> None:
    variables = told(tmp_path, "[ssh_connection]\nssh_args = -o ControlMaster=auto\n")
    assert not {"ANSIBLE_SSH_ARGS", "ANSIBLE_SSH_CONTROL_PATH"} & variables.keys()


def test_facts_on_a_server_are_kept_under_keys_of_the_cells_own(tmp_path: Path) -> None:
    config = "[defaults]\nfact_caching = community.general.redis\nfact_caching_connection = localhost:6379:0\n"
    variables = told(tmp_path, config)
    assert variables["ANSIBLE_CACHE_PLUGIN_PREFIX"] == "one-1-"
    assert "ANSIBLE_CACHE_PLUGIN_CONNECTION" not in variables


@pytest.mark.parametrize("config", ["", "no section\n", "[defaults]\ncallback_plugins =\n"])
def test_settings_that_say_nothing_are_no_mistake_of_ours(config: str, tmp_path: Path) -> None:
    assert told(tmp_path, config)["ANSIBLE_CALLBACK_PLUGINS"].startswith(str(callbacks.FOLDER))


EXPANDED = {  # what ansible.cfg says, and what Ansible makes of it in the product's folder
    "$PWD/plugins": "{product}/plugins",
    "${{LAB}}/plugins": "/lab/plugins",
    "~/plugins": "{home}/plugins",
    "plugins": "{product}/plugins",
    "{{{{CWD}}}}/plugins": "{product}/plugins",
    "a:b": "{product}/a:{product}/b",
    "../a": "{above}/a",
}
LISTED = {"callback_plugins": OWN_CALLBACKS, "roles_path": ROLES,
          "collections_path": COLLECTIONS}  # fmt: skip


def test_paths_in_ansible_cfg_are_ansibles_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB", "/lab")
    product = tmp_path / "product"
    product.mkdir()
    lines = "".join(f"{key} = {':'.join(EXPANDED).format()}\n" for key in LISTED)
    (product / "ansible.cfg").write_text(f"[defaults]\n{lines}", encoding="utf-8")
    libraries = {variable: tmp_path / variable for variable in LISTED.values() if "CALLBACK" not in variable}
    call = AnsibleCall(libraries=libraries)
    given = inputs_of(environment(tmp_path), tmp_path / "deploy.log")
    told = variables(given, product / "ansible.cfg", call, product)
    expected = ":".join(EXPANDED.values()).format(product=product, above=tmp_path, home=Path.home())
    own = {**libraries, OWN_CALLBACKS: callbacks.FOLDER}
    assert {name: told[name] for name in own} == {name: f"{first}:{expected}" for name, first in own.items()}


def heard(folder: Path, tasks: list[object]) -> list[str]:
    """Run a playbook of a play; return what a listener was told."""
    playbook = product(folder, tasks)
    playbook.with_name("ansible.cfg").write_text("", encoding="utf-8")
    log, told = environment(folder).files.log("deploy"), list[str]()
    ears = Listener(
        play=lambda name: told.append(f"play {name}"),
        task=lambda name: told.append(f"task {name}"),
        line=lambda line: told.append(line),
    )
    run_playbook(inputs_of(environment(folder), log), playbook, timeout=SECONDS, log=log, listener=ears)
    return told


def test_plays_and_tasks_are_told_as_they_begin_and_every_line_after_them(tmp_path: Path) -> None:
    told = heard(tmp_path, [{"name": "say", "ansible.builtin.debug": {"msg": "hello"}}])
    play, task = told.index("play all"), told.index("task say")
    assert told[play + 1].startswith("PLAY [all]")
    assert told[task + 1].startswith("TASK [say]")
    assert play < task < next(number for number, line in enumerate(told) if "hello" in line)


def test_a_failure_is_told_with_its_play(tmp_path: Path) -> None:
    cell = environment(tmp_path)
    playbook = product(tmp_path, [{"name": "do", "ansible.builtin.fail": {"msg": "no"}}])
    with pytest.raises(ProductError):
        deploy(cell, playbook)
    ended = ended_by(cell.files.failures("deploy"))
    assert ended is not None
    assert (ended.first.play, ended.first.task, ended.first.host) == ("all", "do", "cp-0")
