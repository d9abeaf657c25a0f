"""Playbooks are called as product.yml says, by Ansible as requirements files install it: really."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cell.product import cached, playbooks
from harness.cell.product.kinds import kind_of
from harness.cell.product.playbooks import changes_of
from harness.cell.product.protocol import PhaseOutcome, PhaseRun
from harness.errors import BadInput
from harness.machines import inventory
from harness.machines.runner.call import COLLECTIONS, ROLES
from harness.model import Cell, Environment, Machine, Phase, PlannedMachine
from harness.proc import run
from harness.spec.models import Product
from tests.unit.cell.product.conftest import NAME, wheel
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


@pytest.fixture(params=["uv", "pip"])
def python_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a requirements file whose package lies beside it, with uv on the host and without."""
    if request.param == "pip":
        monkeypatch.setattr(playbooks, "_uv", lambda: None)
    elif playbooks._uv() is None:
        pytest.fail("uv is missing: install the dependency group `package`")
    wheel(tmp_path / "wheels", "ansible-playbook")
    file = tmp_path / "requirements.txt"
    file.write_text(f"--no-index\n--find-links {tmp_path / 'wheels'}\n{NAME}\n", encoding="utf-8")
    return file


def test_an_environment_is_made_once(python_file: Path) -> None:
    told: list[str] = []
    playbooks.ensure_environment(python_file, told.append, SECONDS)
    program = playbooks.environment_programs(python_file) / "ansible-playbook"
    assert program.is_file()
    playbooks.ensure_environment(python_file, told.append, SECONDS)
    assert told == [f"installing {python_file}"]


def test_what_cannot_be_installed_is_said_in_the_installers_words_and_leaves_nothing(
    python_file: Path, cache: Path
) -> None:
    python_file.write_text("--no-index\nno-such-package==4.5\n", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"^{python_file} cannot be installed: .*no-such-package==4\.5") as failed:
        playbooks.ensure_environment(python_file, lambda _: None, SECONDS)
    assert "ansible.install" in failed.value.hint
    assert [path for path in cache.rglob("*") if not path.name.startswith(".lock-")] == [cache / "environments"]


@pytest.mark.parametrize("python_file", ["uv"], indirect=True)  # it is ours to say, whoever installed
def test_an_environment_without_ansible_is_refused(python_file: Path, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "something-else")
    with pytest.raises(BadInput, match=r"installs no ansible-playbook$"):
        playbooks.ensure_environment(python_file, lambda _: None, SECONDS)


def test_other_content_is_another_environment_also_in_files_that_it_reads(tmp_path: Path) -> None:
    file, other = tmp_path / "requirements.txt", tmp_path / "constraints.txt"
    file.write_text("-c constraints.txt\na\n", encoding="utf-8")
    other.write_text("a==1\n", encoding="utf-8")
    first = playbooks.environment_folder(file)
    assert playbooks.environment_folder(file) == first
    other.write_text("a==2\n", encoding="utf-8")
    second = playbooks.environment_folder(file)
    file.write_text("-c constraints.txt\na\nb\n", encoding="utf-8")
    assert len({first, second, playbooks.environment_folder(file)}) == 3


def test_a_requirements_file_that_is_not_there_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"requirements\.txt cannot be read: No such file or directory$"):
        playbooks.environment_folder(tmp_path / "requirements.txt")


def test_two_processes_make_an_entry_once_and_what_was_killed_is_made_again(cache: Path) -> None:
    folder = cache / "environments" / "abc"
    folder.mkdir(parents=True)
    (folder / "half").touch()
    made: list[int] = []
    begun, goes_on = threading.Event(), threading.Event()

    def make() -> None:
        made.append(len(list(folder.parent.glob("abc/*"))))
        folder.mkdir()
        begun.set()
        assert goes_on.wait(SECONDS)

    told: list[str] = []
    works = [
        threading.Thread(target=lambda: cached.ensure(folder, make, what="it", tell=told.append)) for _ in range(2)
    ]
    works[0].start()
    assert begun.wait(SECONDS)
    works[1].start()
    while "it: another process is at it" not in told:
        works[1].join(0.01)
    goes_on.set()
    for work in works:
        work.join()
    assert made == [0]
    assert cached.finished(folder)
    shutil.rmtree(folder)


PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the archives of a collection and of a role, to be read only."""
    place = tmp_path_factory.mktemp("offline")
    folder = place / "archives"
    collection = place / "made" / "collection"
    (collection / "roles" / "hello" / "tasks").mkdir(parents=True)
    (collection / "roles" / "hello" / "tasks" / "main.yml").write_text(
        "- ansible.builtin.debug: {msg: from the collection}\n", encoding="utf-8"
    )
    (collection / "README.md").touch()
    galaxy_yml = {"namespace": "our", "name": "things", "version": "1.2.3", "readme": "README.md", "authors": ["we"]}
    (collection / "galaxy.yml").write_text(yaml.safe_dump(galaxy_yml), encoding="utf-8")
    galaxy_program = str(PROGRAMS / "ansible-galaxy")
    build = [galaxy_program, "collection", "build", str(collection), "--output-path", str(folder)]
    run(build, timeout=SECONDS, env={"ANSIBLE_HOME": str(place / "home")})
    role = place / "made" / "greet"
    (role / "tasks").mkdir(parents=True)
    (role / "meta").mkdir()
    (role / "meta" / "main.yml").write_text("galaxy_info: {}\n", encoding="utf-8")
    (role / "tasks" / "main.yml").write_text("- ansible.builtin.debug: {msg: from the role}\n", encoding="utf-8")
    with tarfile.open(folder / "greet-2.0.tar.gz", "w:gz") as archive:
        archive.add(role, "greet-2.0")
    return folder


def galaxy_file(folder: Path, content: object) -> Path:
    file = folder / "requirements.yml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def test_collections_and_roles_come_from_the_folder_and_playbooks_find_them(offline: Path, tmp_path: Path) -> None:
    file = galaxy_file(tmp_path, {"collections": [{"name": "our.things"}], "roles": [{"src": "greet"}]})
    told: list[str] = []
    for _ in range(2):
        playbooks.ensure_collections(file, offline, PROGRAMS, told.append, SECONDS)
    assert told == [f"installing {file}"]
    found = playbooks.collections_settings(playbooks.collections_folder(file, offline, PROGRAMS))
    manifest = found[COLLECTIONS] / "ansible_collections" / "our" / "things" / "MANIFEST.json"
    assert json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"] == "1.2.3"
    playbook = tmp_path / "play.yml"
    play = {"hosts": "localhost", "gather_facts": False, "roles": ["our.things.hello", "greet"]}
    playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")
    environment = {name: str(path) for name, path in found.items()}
    done = run([PROGRAMS / "ansible-playbook", playbook], timeout=SECONDS, env=environment)
    assert "from the collection" in done.stdout
    assert "from the role" in done.stdout
    assert set(found) == {COLLECTIONS, ROLES}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"collections": ["their.things"]}, r"has no archive their-things-VERSION\.tar\.gz, which .* asks for$"),
        ({"roles": ["bye"]}, r"has no archive bye\.tar\.gz or bye-VERSION\.tar\.gz, which .* asks for$"),
    ],
)
def test_what_the_folder_lacks_is_named(asked: object, said: str, offline: Path, tmp_path: Path) -> None:
    file = galaxy_file(tmp_path, asked)
    with pytest.raises(BadInput, match=said):
        playbooks.ensure_collections(file, offline, PROGRAMS, lambda _: None, SECONDS)
    assert not playbooks.collections_folder(file, offline, PROGRAMS).exists()


def test_what_cannot_be_installed_is_said_in_ansible_galaxys_words(tmp_path: Path) -> None:
    file = galaxy_file(tmp_path, {"collections": [{"name": str(tmp_path / "nothing.tar.gz"), "type": "file"}]})
    with pytest.raises(BadInput, match=r"requirements\.yml cannot be installed: .*nothing\.tar\.gz"):
        playbooks.ensure_collections(file, None, PROGRAMS, lambda _: None, SECONDS)


@pytest.mark.parametrize("content", ["a: [", "just words"])
def test_a_file_that_is_no_requirements_file_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.yml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"requirements\.yml(:1: malformed YAML| has neither)"):
        playbooks.ensure_collections(file, None, PROGRAMS, lambda _: None, SECONDS)


def test_other_archives_or_another_ansible_are_another_entry(tmp_path: Path) -> None:
    offline = tmp_path / "archives"
    offline.mkdir()
    (offline / "greet-2.0.tar.gz").touch()
    file = galaxy_file(tmp_path, {"roles": ["greet"]})
    first = playbooks.collections_folder(file, offline, PROGRAMS)
    assert playbooks.collections_folder(file, offline, tmp_path) != first
    (offline / "greet-3.0.tar.gz").touch()
    assert playbooks.collections_folder(file, offline, PROGRAMS) != first
