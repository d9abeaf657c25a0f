"""The module that configures a host: only what differs, whole or as a block, nothing in check mode; then its script."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS, module

configuration = module("library/host_configuration.py")


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    """Return an empty ledger beside the files of a test."""
    return configuration.Ledger(tmp_path / "ledger")


def wanted(path: Path, content: str, *, mode: str = "0644", block: str | None = None) -> list[dict[str, Any]]:
    return [{"path": str(path), "content": content, "mode": mode, "block": block}]


def test_writes_a_file_and_its_folders(tmp_path: Path, ledger: Any) -> None:
    path = tmp_path / "a" / "b" / "file"
    written, _ = configuration.apply(wanted(path, "text\n", mode="0600"), ledger, dry=False)
    assert written == [str(path)]
    assert path.read_text() == "text\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_a_second_time_changes_nothing(tmp_path: Path, ledger: Any) -> None:
    files = wanted(tmp_path / "file", "text\n") + wanted(tmp_path / "hosts", "1.2.3.4 cp\n", block="cluster")
    configuration.apply(files, ledger, dry=False)
    assert configuration.apply(files, ledger, dry=False) == ([], [])


def test_puts_a_changed_mode_right(tmp_path: Path, ledger: Any) -> None:
    files = wanted(tmp_path / "file", "text\n", mode="0600")
    configuration.apply(files, ledger, dry=False)
    (tmp_path / "file").chmod(0o644)
    assert configuration.apply(files, ledger, dry=False)[0] == [str(tmp_path / "file")]
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_check_mode_tells_the_difference_and_writes_nothing(tmp_path: Path, ledger: Any) -> None:
    (tmp_path / "file").write_text("old\n")
    written, differences = configuration.apply(wanted(tmp_path / "file", "new\n"), ledger, dry=True)
    assert written == [str(tmp_path / "file")]
    assert (differences[0]["before"], differences[0]["after"]) == ("old\n", "new\n")
    assert (tmp_path / "file").read_text() == "old\n"


def test_what_is_private_is_not_shown_as_a_difference_nor_among_what_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("old secret\n")
    files = [{"path": str(tmp_path / "key"), "content": "new secret\n", "mode": "0600", "private": True}]
    arguments = {"files": files, "ledger": str(tmp_path / "ledger"), "_ansible_diff": True, "_ansible_check_mode": True}
    program = PLAYBOOKS / "library" / "host_configuration.py"
    done = proc.run([sys.executable, program], timeout=60, stdin=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
    answer = json.loads(done.stdout)
    assert "secret" not in done.stdout
    assert [(each["before"], each["after"]) for each in answer["diff"]] == [("(private)\n", "(private)\n")]
    assert answer["changed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "# BEGIN x\nnew\n# END x\n"),
        ("127.0.0.1 localhost", "127.0.0.1 localhost\n# BEGIN x\nnew\n# END x\n"),
        ("head\n# BEGIN x\nold\nold\n# END x\ntail\n", "head\n# BEGIN x\nnew\n# END x\ntail\n"),
        ("head\n# BEGIN x\nlost its end\n", "head\n# BEGIN x\nnew\n# END x\n"),
        ("# BEGIN y\nother\n# END y\n", "# BEGIN y\nother\n# END y\n# BEGIN x\nnew\n# END x\n"),
    ],
)
def test_a_block_leaves_the_rest_of_the_file_alone(before: str, after: str) -> None:
    assert configuration.with_block(before, "x", "new\n") == after


def test_a_block_keeps_the_mode_of_a_file_that_is_there(tmp_path: Path, ledger: Any) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "hosts").chmod(0o640)
    configuration.apply(wanted(tmp_path / "hosts", "1.2.3.4 cp\n", block="cluster"), ledger, dry=False)
    assert (tmp_path / "hosts").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        configuration.write(tmp_path / "file", "text\n", 0o644)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_script_reads_what_it_is_fed_and_not_its_arguments() -> None:
    done = configuration.run("cat; echo $#", "secret\n")
    assert done.stdout == "secret\n0\n"


def test_a_failed_script_is_reported_by_its_last_words() -> None:
    done = configuration.run("seq 50; seq 50 >&2; exit 3", "")
    assert configuration.complaint(done).splitlines()[0] == "the script ended with status 3: 31"
    assert configuration.complaint(done).splitlines()[-1] == "50"


def test_what_kubeadm_calls_an_error_comes_before_what_it_says_around_it_and_no_warning_does() -> None:
    said = "[WARNING Swap]: swap\n[preflight] Some errors occurred:\n\t[ERROR Port-6443]: in use\n[preflight] hint"
    done = configuration.run(f"printf {said!r} >&2; exit 1", "")
    assert configuration.complaint(done).splitlines() == [
        "the script ended with status 1: [ERROR Port-6443]: in use",
        "[preflight] Some errors occurred:",
        "[preflight] hint",
    ]


def test_a_script_says_by_its_status_that_what_was_asked_for_is_wrong() -> None:
    refused = configuration.run("echo done; echo 'node ghost is unknown' >&2; exit 65", "")
    assert configuration.failure(refused) == {"msg": "node ghost is unknown", "blame": "user"}
    failed = configuration.run("echo no >&2; exit 1", "")
    assert configuration.failure(failed) == {"msg": "the script ended with status 1: no"}


def test_a_script_that_only_warned_is_reported_by_its_warning() -> None:
    done = configuration.run("echo '[WARNING Swap]: swap'; exit 1", "")
    assert configuration.complaint(done) == "the script ended with status 1: [WARNING Swap]: swap"


def undone(tmp_path: Path, *, dry: bool = False) -> list[str]:
    """Undo by the ledger as a later execution of the module reads it."""
    paths: list[str] = configuration.undo(configuration.Ledger(tmp_path / "ledger"), dry=dry)
    return paths


def test_undoing_leaves_no_file_and_no_folder_of_ours(tmp_path: Path, ledger: Any) -> None:
    configuration.apply(wanted(tmp_path / "a" / "b" / "one", "1\n"), ledger, dry=False)
    configuration.apply(wanted(tmp_path / "a" / "two", "2\n"), configuration.Ledger(tmp_path / "ledger"), dry=False)
    assert undone(tmp_path) == [str(tmp_path / "a" / "two"), str(tmp_path / "a" / "b" / "one")]
    assert list(tmp_path.iterdir()) == []
    assert undone(tmp_path) == []


def test_undoing_keeps_a_folder_in_which_others_have_something(tmp_path: Path, ledger: Any) -> None:
    configuration.apply(wanted(tmp_path / "a" / "ours", "1\n"), ledger, dry=False)
    (tmp_path / "a" / "theirs").touch()
    undone(tmp_path)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["theirs"]


def test_undoing_brings_back_what_was_there_before_the_first_write(tmp_path: Path, ledger: Any) -> None:
    path = tmp_path / "file"
    path.write_text("theirs\n")
    path.chmod(0o640)
    configuration.apply(wanted(path, "first\n"), ledger, dry=False)
    configuration.apply(wanted(path, "second\n"), ledger, dry=False)
    undone(tmp_path)
    assert path.read_text() == "theirs\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_undoing_takes_a_block_out_and_keeps_what_others_wrote_meanwhile(tmp_path: Path, ledger: Any) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n")
    configuration.apply(wanted(path, "1.2.3.4 cp\n", block="cluster"), ledger, dry=False)
    path.write_text(path.read_text() + "5.6.7.8 other\n")
    undone(tmp_path)
    assert path.read_text() == "127.0.0.1 localhost\n5.6.7.8 other\n"


def test_undoing_removes_a_file_that_was_made_for_a_block(tmp_path: Path, ledger: Any) -> None:
    configuration.apply(wanted(tmp_path / "hosts", "1.2.3.4 cp\n", block="cluster"), ledger, dry=False)
    undone(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_undoing_in_check_mode_only_tells(tmp_path: Path, ledger: Any) -> None:
    configuration.apply(wanted(tmp_path / "file", "text\n"), ledger, dry=False)
    assert undone(tmp_path, dry=True) == [str(tmp_path / "file")]
    assert (tmp_path / "file").exists()
    assert undone(tmp_path) == [str(tmp_path / "file")]


def test_what_was_private_stays_private_in_the_ledger(tmp_path: Path, ledger: Any) -> None:
    (tmp_path / "key").write_text("secret\n")
    configuration.apply(wanted(tmp_path / "key", "new\n", mode="0600"), ledger, dry=False)
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_write_that_changes_nothing_is_not_in_the_ledger(tmp_path: Path, ledger: Any) -> None:
    (tmp_path / "file").write_text("text\n")
    configuration.apply(wanted(tmp_path / "file", "text\n"), ledger, dry=False)
    assert not ledger.path.exists()
