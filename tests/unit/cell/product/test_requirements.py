"""What requirements files name is installed once, in its installer's own words where it cannot be."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import threading
from pathlib import Path

import pytest
import yaml

from harness.cell.product import cached, requirements
from harness.errors import BadInput
from harness.machines.runner.call import COLLECTIONS, ROLES
from harness.proc import run
from tests.unit.cell.product.conftest import NAME, wheel

SECONDS = 120.0  # against hanging: it takes about two


@pytest.fixture(params=["uv", "pip"])
def python_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a requirements file whose package lies beside it, with uv on the host and without."""
    if request.param == "pip":
        monkeypatch.setattr(requirements, "_uv", lambda: None)
    elif requirements._uv() is None:
        pytest.fail("uv is missing: install the dependency group `package`")
    wheel(tmp_path / "wheels", "ansible-playbook")
    file = tmp_path / "requirements.txt"
    file.write_text(f"--no-index\n--find-links {tmp_path / 'wheels'}\n{NAME}\n", encoding="utf-8")
    return file


def test_an_environment_is_made_once(python_file: Path) -> None:
    told: list[str] = []
    requirements.ensure_environment(python_file, told.append, SECONDS)
    program = requirements.environment_programs(python_file) / "ansible-playbook"
    assert program.is_file()
    requirements.ensure_environment(python_file, told.append, SECONDS)
    assert told == [f"installing {python_file}"]


def test_what_cannot_be_installed_is_said_in_the_installers_words_and_leaves_nothing(
    python_file: Path, cache: Path
) -> None:
    python_file.write_text("--no-index\nno-such-package==4.5\n", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"^{python_file} cannot be installed: .*no-such-package==4\.5") as failed:
        requirements.ensure_environment(python_file, lambda _: None, SECONDS)
    assert "ansible.install" in failed.value.hint
    assert [path for path in cache.rglob("*") if not path.name.startswith(".lock-")] == [cache / "environments"]


@pytest.mark.parametrize("python_file", ["uv"], indirect=True)  # it is ours to say, whoever installed
def test_an_environment_without_ansible_is_refused(python_file: Path, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "something-else")
    with pytest.raises(BadInput, match=r"installs no ansible-playbook$"):
        requirements.ensure_environment(python_file, lambda _: None, SECONDS)


def test_other_content_is_another_environment_also_in_files_that_it_reads(tmp_path: Path) -> None:
    file, other = tmp_path / "requirements.txt", tmp_path / "constraints.txt"
    file.write_text("-c constraints.txt\na\n", encoding="utf-8")
    other.write_text("a==1\n", encoding="utf-8")
    first = requirements.environment_folder(file)
    assert requirements.environment_folder(file) == first
    other.write_text("a==2\n", encoding="utf-8")
    second = requirements.environment_folder(file)
    file.write_text("-c constraints.txt\na\nb\n", encoding="utf-8")
    assert len({first, second, requirements.environment_folder(file)}) == 3


def test_a_requirements_file_that_is_not_there_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"requirements\.txt cannot be read: No such file or directory$"):
        requirements.environment_folder(tmp_path / "requirements.txt")


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
        requirements.ensure_collections(file, offline, PROGRAMS, told.append, SECONDS)
    assert told == [f"installing {file}"]
    found = requirements.collections_settings(requirements.collections_folder(file, offline, PROGRAMS))
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
        requirements.ensure_collections(file, offline, PROGRAMS, lambda _: None, SECONDS)
    assert not requirements.collections_folder(file, offline, PROGRAMS).exists()


def test_what_cannot_be_installed_is_said_in_ansible_galaxys_words(tmp_path: Path) -> None:
    file = galaxy_file(tmp_path, {"collections": [{"name": str(tmp_path / "nothing.tar.gz"), "type": "file"}]})
    with pytest.raises(BadInput, match=r"requirements\.yml cannot be installed: .*nothing\.tar\.gz"):
        requirements.ensure_collections(file, None, PROGRAMS, lambda _: None, SECONDS)


@pytest.mark.parametrize("content", ["a: [", "just words"])
def test_a_file_that_is_no_requirements_file_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.yml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"requirements\.yml(:1: malformed YAML| has neither)"):
        requirements.ensure_collections(file, None, PROGRAMS, lambda _: None, SECONDS)


def test_other_archives_or_another_ansible_are_another_entry(tmp_path: Path) -> None:
    offline = tmp_path / "archives"
    offline.mkdir()
    (offline / "greet-2.0.tar.gz").touch()
    file = galaxy_file(tmp_path, {"roles": ["greet"]})
    first = requirements.collections_folder(file, offline, PROGRAMS)
    assert requirements.collections_folder(file, offline, tmp_path) != first
    (offline / "greet-3.0.tar.gz").touch()
    assert requirements.collections_folder(file, offline, PROGRAMS) != first
