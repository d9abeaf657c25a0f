"""Paths that are none, folders and files that would be overlooked, and places that no result can be written to."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.paths import PROJECT, enclosing_project
from tests.unit.refusals.called import Refusal, Room
from tests.unit.refusals.test_files import MAKERS, device, fifo, folder, loop

HERE = {PROJECT: "{WORK}"}
PATHS = {
    "--project": "--project {} list",
    "--product-file": "--product-file {} list",
    "--runs": "run --runs {}",
    "--kubeconfig": "status --kubeconfig {}",
    "--directory": "schema --directory {}",
    "--output": "report --output {}",
    "--history": "report --history {}",
    "--faults": "report --faults {}",
    "--inventory": "check --inventory {}",
    "--releases": "infra up --releases {}",
    "PATH": "history add {}",
    "DIRECTORY": "init {}",
}


@pytest.mark.parametrize("name", PATHS)
def test_an_empty_path_is_not_the_working_directory(room: Room, name: str) -> None:
    words, _, after = PATHS[name].partition("{}")
    ended = room.refuses(Refusal(f"{words}_EMPTY_{after}", f"{name}: it is empty; name a path"))
    assert ended.started == ()


@pytest.mark.parametrize("setting", ["runs", "kubeconfig", "guest_vars", "report_file", "releases"])
@pytest.mark.parametrize(("value", "says"), [("''", "it is empty"), (r'"a\0b"', "it contains a control character")])
def test_a_path_in_the_settings_that_is_none(room: Room, setting: str, value: str, says: str) -> None:
    files = {"vmatrix.yml": f"timeout_scale: 2\n{setting}: {value}\n"}
    room.refuses(Refusal("config", f"vmatrix.yml:2: {setting}: {says}", files=files, env=HERE))


@pytest.mark.parametrize("setting", ["RUNS", "KUBECONFIG", "GUEST_VARS"])
def test_a_path_in_the_environment_that_is_none(room: Room, setting: str) -> None:
    room.refuses(Refusal("list", f"VMATRIX_{setting}: it is empty", env={f"VMATRIX_{setting}": ""}))


# The mode of a folder or a file of the project, and what has to be said; the packaged one does not stand for it.
WITHOUT_RIGHTS = (
    ("matrix", 0o000, "list", "matrix: Permission denied"),
    ("matrix", 0o444, "list", "matrix: Permission denied"),
    ("matrix", 0o111, "list", "matrix: Permission denied"),
    ("matrix", 0o444, "plan --check", "matrix: Permission denied"),
    ("matrix", 0o444, "config", "matrix: Permission denied"),
    ("matrix/tiers.yml", 0o000, "list", "matrix/tiers.yml:1: Permission denied"),
    ("matrix/plan.lock.yml", 0o000, "list", "matrix/plan.lock.yml:1: Permission denied"),
    ("matrix/products", 0o444, "list", "matrix/products: Permission denied"),
    ("vmatrix.yml", 0o000, "config", "vmatrix.yml:1: Permission denied"),
    ("runs", 0o000, "history show", "cannot read the history runs/history.jsonl: Permission denied"),
)
ALONE = ((0o000, "list"), (0o000, "config"), (0o111, "config"), (0o000, "init ."))
OVERRIDE = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: root's rights besides what modes say
CAPABILITIES = 0x20080522  # version of the structures of capset(2), with two words for each set


@contextmanager
def kept_to_modes() -> Iterator[None]:
    """Give this thread no other rights to files than their modes say, as root has them."""
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    before = sets[0]
    sets[0] = before & ~OVERRIDE
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = before
        assert libc.capset(header, sets) == 0


def refused_by_modes(room: Room, path: str, mode: int, case: Refusal) -> None:
    """Hold a command to its refusal of a path with a mode, and to have changed nothing."""
    before, mode_before = room.seen(), (room.work / path).stat().st_mode
    (room.work / path).chmod(mode)
    try:
        with kept_to_modes():
            ended = room.call(case.words, case.env)
    finally:
        (room.work / path).chmod(mode_before)
    assert (ended.code, ended.started) == (case.code, ()), ended
    message, _, hint = ended.stderr.partition("hint: ")
    assert message.count("error (user)") == 1, ended
    assert case.says in message, ended
    assert case.hint in hint, ended
    assert room.seen() == before


@pytest.mark.parametrize(("path", "mode", "words", "says"), WITHOUT_RIGHTS, ids=str)
def test_what_may_not_be_read_is_not_taken_for_absent(room: Room, path: str, mode: int, words: str, says: str) -> None:
    room.put({f"matrix/{name}": "extends: default\n" for name in ("tiers.yml", "axes.yml", "products/operator.yml")})
    room.put({"vmatrix.yml": "", "matrix/plan.lock.yml": "{}\n", "runs/history.jsonl": ""})
    refused_by_modes(room, path, mode, Refusal(words, says, env=HERE))


@pytest.mark.parametrize(("mode", "words"), ALONE, ids=str)
def test_a_matrix_that_may_not_be_read_may_be_a_projects(
    room: Room, monkeypatch: pytest.MonkeyPatch, mode: int, words: str
) -> None:
    monkeypatch.delenv(PROJECT, raising=False)
    room.put({"matrix/tiers.yml": "extends: default\n"})
    refused_by_modes(room, "matrix", mode, Refusal(words, "matrix: Permission denied", "change its owner or mode"))


def test_a_matrix_above_that_may_not_be_read_is_somebody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    plain = os.listdir

    def listed(path: Path) -> list[str]:
        if Path(path) == tmp_path / "matrix":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(os, "listdir", listed)
    assert enclosing_project() is None


def nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def file(path: Path) -> None:
    path.touch()


MATRICES: dict[str, tuple[Callable[[Path], None], str]] = {
    "nowhere": (nowhere, "matrix is a link to nowhere, which is not a folder"),
    "loop": (loop, "symbolic links"),
    "file": (file, "matrix is not a folder"),
    "fifo": (fifo, "matrix is not a folder"),
}


@pytest.mark.parametrize("command", ["list", "run", "plan"])
@pytest.mark.parametrize("kind", MATRICES)
def test_a_matrix_that_is_no_folder(room: Room, kind: str, command: str) -> None:
    make, says = MATRICES[kind]
    make(room.work / "matrix")
    room.refuses(Refusal(command, says, files={"vmatrix.yml": ""}, env=HERE))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("axes.yaml", "name it axes.yml"),
        ("product.yaml", "name it product.yml"),
        ("tires.yml", "did you mean tiers.yml?"),
        ("scenario.yml", "did you mean scenarios.yml?"),
        ("topology.yml", "did you mean topologies.yml?"),
        ("timeout.yaml", "did you mean timeouts.yml?"),
        ("quarantaine.yml", "did you mean quarantine.yml?"),
    ],
)
def test_a_file_of_the_matrix_that_would_be_overlooked(room: Room, name: str, meant: str) -> None:
    room.refuses(
        Refusal("list", f"{name} is not read", meant, files={"vmatrix.yml": "", f"matrix/{name}": ""}, env=HERE)
    )


@pytest.mark.parametrize("name", ["tiers.old.yml", "product-next.yml", "notes.yml", "COVERAGE.md"])
def test_a_file_of_another_name_is_nobodys_business(room: Room, name: str) -> None:
    room.put({"vmatrix.yml": "", f"matrix/{name}": ""})
    assert room.call("list --tier smoke", HERE).code == 0


@pytest.mark.parametrize(
    ("kind", "says"), [("device", "is not a file"), ("folder", "is not a file"), ("fifo", "is not a file")]
)
def test_a_product_file_that_is_none(room: Room, kind: str, says: str) -> None:
    {"device": device, "folder": folder, "fifo": fifo}[kind](room.work / "p.yml")
    room.refuses(Refusal("--product-file p.yml list", says, "--product-file"))


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ("file", "Not a directory"),
        ("file/deeper", "Not a directory"),
        ("loop/deeper", "symbolic links"),
        ("/dev/null", "/dev/null: Not a directory"),
        ("/dev/null/x", "/dev/null: Not a directory"),
    ],
)
def test_results_that_could_not_be_written_are_refused_before_the_run(room: Room, runs: str, says: str) -> None:
    file(room.work / "file")
    loop(room.work / "loop")
    room.refuses(Refusal(f"run --runs {runs}", says, "--runs" if "directory" in says else "name the file itself"))


def test_results_in_a_folder_of_another_user(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(room.work / "theirs")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "theirs")
    room.refuses(Refusal("run --runs theirs/runs", "theirs: Permission denied", "run as a user who may"))


@pytest.mark.parametrize("words", ["init --packaged loop", "--project loop list"])
def test_a_link_that_leads_to_itself(room: Room, words: str) -> None:
    loop(room.work / "loop")
    room.refuses(Refusal(words, "loop: Too many levels of symbolic links"))


def test_a_history_file_that_is_there_and_is_none(room: Room) -> None:
    fifo(room.work / "h.jsonl")
    room.refuses(Refusal("history add h.jsonl", "h.jsonl is neither a folder nor a regular file"))


CLUSTER = {
    "VMATRIX_PROVIDER": "kubeconfig",
    "VMATRIX_KUBECONFIG": "kc",
    "VMATRIX_MIRROR_HTTP": "http://192.0.2.1",
    "VMATRIX_REGISTRY": "192.0.2.1:5000",
    "VMATRIX_GUEST_VARS": "g.yml",
}
VARIABLES = {
    "[1]": "g.yml:1: not `name: value` pairs",
    "x: [": "malformed YAML",
    "a: 1\na: 2": "g.yml:2: a: duplicate key",
    "a: &a [*a]": "the anchor is used inside itself",
    "a: 1\ncluster_hosts: {}": "g.yml:2: cluster_hosts: vmatrix sets it itself",
    "cluster_mirror_url: x": "vmatrix sets it itself",
    "a-b: 1": "no name of a variable",
    "1: 2": "no name of a variable",
    "cluster_pod_cidr: 10.0.0.0/99": "cluster_pod_cidr: '10.0.0.0/99'",
    "cluster_service_cidr: [1]": "does not appear to be an IPv4 or IPv6 network",
    "cluster_vxlan_port: abc": "'abc' is not a port",
    "cluster_vxlan_port: 70000": "70000 is not a port",
}


@pytest.mark.parametrize("text", VARIABLES)
def test_variables_of_guests_that_no_cell_can_have(room: Room, text: str) -> None:
    room.refuses(Refusal("run", VARIABLES[text], "docs/playbooks.md", files={"g.yml": text, "kc": ""}, env=CLUSTER))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_file_of_guests_variables_that_is_none(room: Room, kind: str) -> None:
    make, says = MAKERS[kind]
    make(room.work / "g.yml")
    room.refuses(Refusal("run", says, files={"kc": ""}, env=CLUSTER))
