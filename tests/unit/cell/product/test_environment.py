"""A product's own environment is made once, from its requirements file, and not at all where that cannot be."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from harness.cell.product import cached, environment
from harness.errors import BadInput
from tests.unit.cell.product.conftest import NAME, wheel

SECONDS = 120.0  # against hanging: it takes about two


@pytest.fixture(params=["uv", "pip"])
def requirements(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a requirements file whose package lies beside it, with uv on the host and without."""
    if request.param == "pip":
        monkeypatch.setattr(environment, "_uv", lambda: None)
    elif environment._uv() is None:
        pytest.fail("uv is missing: install the dependency group `package`")
    wheel(tmp_path / "wheels", "ansible-playbook")
    file = tmp_path / "requirements.txt"
    file.write_text(f"--no-index\n--find-links {tmp_path / 'wheels'}\n{NAME}\n", encoding="utf-8")
    return file


def test_an_environment_is_made_once(requirements: Path) -> None:
    told: list[str] = []
    environment.ensure(requirements, told.append, SECONDS)
    program = environment.programs_of(requirements) / "ansible-playbook"
    assert program.is_file()
    environment.ensure(requirements, told.append, SECONDS)
    assert told == [f"installing {requirements}"]


def test_what_cannot_be_installed_is_said_in_the_installers_words_and_leaves_nothing(
    requirements: Path, cache: Path
) -> None:
    requirements.write_text("--no-index\nno-such-package==4.5\n", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"^{requirements} cannot be installed: .*no-such-package==4\.5") as failed:
        environment.ensure(requirements, lambda _: None, SECONDS)
    assert "ansible.install" in failed.value.hint
    assert [path for path in cache.rglob("*") if not path.name.startswith(".lock-")] == [cache / "environments"]


def test_an_environment_without_ansible_is_refused(requirements: Path, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "something-else")
    with pytest.raises(BadInput, match=r"installs no ansible-playbook$"):
        environment.ensure(requirements, lambda _: None, SECONDS)


def test_other_content_is_another_environment_also_in_files_that_it_reads(tmp_path: Path) -> None:
    file, other = tmp_path / "requirements.txt", tmp_path / "constraints.txt"
    file.write_text("-c constraints.txt\na\n", encoding="utf-8")
    other.write_text("a==1\n", encoding="utf-8")
    first = environment.folder_of(file)
    assert environment.folder_of(file) == first
    other.write_text("a==2\n", encoding="utf-8")
    second = environment.folder_of(file)
    file.write_text("-c constraints.txt\na\nb\n", encoding="utf-8")
    assert len({first, second, environment.folder_of(file)}) == 3


def test_a_requirements_file_that_is_not_there_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"requirements\.txt cannot be read: No such file or directory$"):
        environment.folder_of(tmp_path / "requirements.txt")


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
