"""Collections and roles from an offline folder, by the real ansible-galaxy and ansible-playbook."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from harness.cell.product import galaxy
from harness.errors import BadInput
from harness.machines.runner.ansible_settings import COLLECTIONS, ROLES
from harness.proc import run

PROGRAMS = Path(sys.executable).parent
SECONDS = 120.0  # against hanging: an installation takes a few


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    """Return a folder with the archives of a collection and of a role."""
    folder = tmp_path / "archives"
    collection = tmp_path / "made" / "collection"
    (collection / "roles" / "hello" / "tasks").mkdir(parents=True)
    (collection / "roles" / "hello" / "tasks" / "main.yml").write_text(
        "- ansible.builtin.debug: {msg: from the collection}\n", encoding="utf-8"
    )
    (collection / "README.md").touch()
    galaxy_yml = {"namespace": "our", "name": "things", "version": "1.2.3", "readme": "README.md", "authors": ["we"]}
    (collection / "galaxy.yml").write_text(yaml.safe_dump(galaxy_yml), encoding="utf-8")
    galaxy_program = str(PROGRAMS / "ansible-galaxy")
    build = [galaxy_program, "collection", "build", str(collection), "--output-path", str(folder)]
    run(build, timeout=SECONDS, env={"ANSIBLE_HOME": str(tmp_path / "home")})
    role = tmp_path / "made" / "greet"
    (role / "tasks").mkdir(parents=True)
    (role / "meta").mkdir()
    (role / "meta" / "main.yml").write_text("galaxy_info: {}\n", encoding="utf-8")
    (role / "tasks" / "main.yml").write_text("- ansible.builtin.debug: {msg: from the role}\n", encoding="utf-8")
    with tarfile.open(folder / "greet-2.0.tar.gz", "w:gz") as archive:
        archive.add(role, "greet-2.0")
    return folder


def requirements(folder: Path, content: object) -> Path:
    file = folder / "requirements.yml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def test_collections_and_roles_come_from_the_folder_and_playbooks_find_them(offline: Path, tmp_path: Path) -> None:
    file = requirements(tmp_path, {"collections": [{"name": "our.things"}], "roles": [{"src": "greet"}]})
    told: list[str] = []
    for _ in range(2):
        galaxy.ensure(file, offline, PROGRAMS, told.append, SECONDS)
    assert told == [f"installing {file}"]
    found = galaxy.libraries(galaxy.folder_of(file, offline, PROGRAMS))
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
    file = requirements(tmp_path, asked)
    with pytest.raises(BadInput, match=said):
        galaxy.ensure(file, offline, PROGRAMS, lambda _: None, SECONDS)
    assert not galaxy.folder_of(file, offline, PROGRAMS).exists()


def test_what_cannot_be_installed_is_said_in_ansible_galaxys_words(tmp_path: Path) -> None:
    file = requirements(tmp_path, {"collections": [{"name": str(tmp_path / "nothing.tar.gz"), "type": "file"}]})
    with pytest.raises(BadInput, match=r"requirements\.yml cannot be installed: .*nothing\.tar\.gz"):
        galaxy.ensure(file, None, PROGRAMS, lambda _: None, SECONDS)


@pytest.mark.parametrize("content", ["a: [", "just words"])
def test_a_file_that_is_no_requirements_file_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.yml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"requirements\.yml(:1: malformed YAML| has neither)"):
        galaxy.ensure(file, None, PROGRAMS, lambda _: None, SECONDS)


def test_other_archives_or_another_ansible_are_another_entry(offline: Path, tmp_path: Path) -> None:
    file = requirements(tmp_path, {"roles": ["greet"]})
    first = galaxy.folder_of(file, offline, PROGRAMS)
    assert galaxy.folder_of(file, offline, tmp_path) != first
    (offline / "greet-3.0.tar.gz").touch()
    assert galaxy.folder_of(file, offline, PROGRAMS) != first
