"""Files that are none, too large, or of another kind: refused before they are read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import files
from harness.errors import BadInput
from harness.paths import PROJECT
from tests.unit.refusals.called import Refusal, Room

HERE = {PROJECT: "{WORK}"}
WHERE = "--provider kubeconfig --kubeconfig kc"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(files.LARGEST + 1)


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def latin(path: Path) -> None:
    path.write_bytes(b"a: 1\nb: \xe9\n")


MAKERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "fifo": (fifo, "is a FIFO"),
    "folder": (folder, "is a folder"),
    "device": (device, "is a device"),
    "loop": (loop, "symbolic links"),
    "large": (large, "at most 16 MiB are read"),
    "socket": (bound, "No such device or address"),
    "latin": (latin, "is not UTF-8 text"),
}
COMMANDS = {
    "kc": (f"status {WHERE}", f"reap --all {WHERE}", f"login cell cp-0 {WHERE}"),
    "guest.yml": ("operator explain -f guest.yml",),
}
CASES = [(kind, file, command) for kind in MAKERS for file, each in COMMANDS.items() for command in each]


@pytest.mark.parametrize(("kind", "file", "command"), CASES, ids=[f"{k}-{c}" for k, _, c in CASES])
def test_a_file_that_is_none(room: Room, kind: str, file: str, command: str) -> None:
    make, says = MAKERS[kind]
    make(room.work / file)
    room.refuses(Refusal(command, says, code=2))


@pytest.mark.parametrize("kind", MAKERS)
def test_the_reader_refuses_what_it_does_not_read(tmp_path: Path, kind: str) -> None:
    make, says = MAKERS[kind]
    make(tmp_path / "x")
    with pytest.raises(BadInput) as refused:
        files.read_text(tmp_path / "x")
    assert says in refused.value.summary
    assert refused.value.hint


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_a_history_that_is_no_file(room: Room, kind: str) -> None:
    make, says = MAKERS[kind]
    make(room.work / "history.jsonl")
    (room.work / "vmatrix.yml").write_text("report_file: history.jsonl\n", encoding="utf-8")
    room.refuses(Refusal("history show", says, env=HERE))


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_lies_among_the_products_files_is_not_waited_for(room: Room, kind: str) -> None:
    make, _ = MAKERS[kind]
    (room.work / "playbooks").mkdir()
    make(room.work / "playbooks" / "odd.yml")
    files = {
        "playbooks/cluster.yml": "- import_playbook: odd.yml\n- hosts: nowhere\n",
        "matrix/product.yml": "product:\n  name: p\n  kind: ansible\n  directory: playbooks\n  phases:\n"
        "    deploy: {playbook: cluster.yml}\n    reset: {playbook: nope.yml}\n",
    }
    room.refuses(Refusal("list", "the playbook", files=files, env=HERE))


OPERATION = {
    "hosts.yml": "all: {hosts: {cp-0: {ansible_host: 192.0.2.1}}}\n",
    "extra-vars.yml": "{}\n",
    "operation.json": '{"cluster": "c", "namespace": "n", "job": "j", "sequence": "1", "operation": "deploy",'
    ' "entry": "cluster.yml", "deadlineSeconds": 60}\n',
}
DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize("file", [*OPERATION, "product.yml"])
@pytest.mark.parametrize("kind", MAKERS)
def test_a_file_of_an_operation_that_is_none(room: Room, kind: str, file: str) -> None:
    make, says = MAKERS[kind]
    files = {f"in/{name}": text for name, text in OPERATION.items() if name != file}
    room.put(files)
    make(room.work / "in" / file)
    room.refuses(Refusal("operator execute --from in", says))


@pytest.mark.parametrize("file", [*OPERATION, "product.yml"])
def test_a_file_of_an_operation_that_is_nested_deep(room: Room, file: str) -> None:
    files = {f"in/{name}": text for name, text in (OPERATION | {file: DEEP}).items()}
    room.refuses(Refusal("operator execute --from in", "nested too deeply", files=files))


# Files that may be absent, and the command that reads them: a link that leads to itself is not an absent file.
OPTIONAL = {
    "vmatrix.yml": "config",
    "matrix/plan.lock.yml": "list",
    "matrix/tiers.yml": "list",
    "matrix/axes.yml": "list",
    "matrix/product.yml": "list",
    "runs/history.jsonl": "history show",
}


@pytest.mark.parametrize(("file", "command"), OPTIONAL.items(), ids=list(OPTIONAL))
def test_a_link_to_itself_is_not_taken_for_an_absent_file(room: Room, file: str, command: str) -> None:
    if file != "vmatrix.yml":
        room.put({"vmatrix.yml": "{}\n"})  # which makes it a project
    (room.work / file).parent.mkdir(exist_ok=True)
    loop(room.work / file)
    room.refuses(Refusal(command, "symbolic links", env=HERE))
