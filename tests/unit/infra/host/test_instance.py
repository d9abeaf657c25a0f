"""An instance's record, its lock, its names and addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.infra.host import folder, layout, network, status
from harness.infra.host.layout import InstanceRecord
from harness.until import TimedOut


@pytest.fixture
def here(tmp_path: Path) -> layout.Layout:
    return layout.Layout("unit", tmp_path / "unit")


def test_a_record_comes_back_as_it_was_saved(here: layout.Layout) -> None:
    saved = InstanceRecord("unit", 3, "2026-01-01T00:00:00.000Z", "boot", ending=True)
    layout.save_record(here, saved)
    assert layout.load_record(here) == saved


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "unit"}', '{"name": "unit", "index": "x"}'])
def test_a_half_written_record_is_no_record(here: layout.Layout, text: str) -> None:
    here.root.mkdir()
    here.record.write_text(text, encoding="utf-8")
    assert layout.load_record(here) is None


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a b", "a/b", "../a", "a" * 33])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="is not valid"):
        layout.layout_of(name, "embedded")


def test_instances_own_different_blocks_and_their_services_lie_in_them() -> None:
    assert {network.block_of(i) for i in network.INDICES} == {f"10.{n}.0.0/16" for n in range(213, 229)}
    assert network.address_of(0) == "10.213.0.1"
    assert network.service_address_of(15) == "10.228.255.1"
    assert network.service_range_of(15) == "10.228.255.0/24"


def test_a_lock_is_held_by_one_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    refused = pytest.raises(TimedOut, match="waiting for it to be free")
    with (
        folder.hold(path, seconds=1, what="it to be free"),
        refused,
        folder.hold(path, seconds=0, what="it to be free"),
    ):
        pass
    with folder.hold(path, seconds=0, what="it to be free"):
        path.unlink()


def test_a_removed_lock_file_is_not_mistaken_for_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with folder.hold(path, seconds=0, what="it to be free"):
        path.unlink()
        with folder.hold(path, seconds=0, what="it to be free"):
            assert path.exists()


def test_files_go_with_the_record_last_and_twice_is_no_error(here: layout.Layout) -> None:
    layout.save_record(here, InstanceRecord("unit", 0, "", ""))
    (here.root / "etcd").mkdir()
    (here.root / "etcd" / "wal").write_text("x", encoding="utf-8")
    (here.root / "kubeconfig").symlink_to("/nowhere")
    folder.remove_files(here)
    folder.remove_files(here)
    assert not here.root.exists()


def test_the_folder_of_all_instances_goes_with_the_last_of_them(tmp_path: Path) -> None:
    one, other = (layout.Layout(name, tmp_path / "embedded" / name) for name in ("one", "other"))
    other.root.mkdir(parents=True)
    folder.forget(one)
    assert other.root.is_dir()
    other.root.rmdir()
    folder.forget(one)
    assert not (tmp_path / "embedded").exists()


def test_an_instance_that_never_was_has_left_nothing(here: layout.Layout) -> None:
    assert status.leftovers(here, None) == []
    here.root.mkdir()
    assert status.leftovers(here, None) == [f"file {here.root}"]
