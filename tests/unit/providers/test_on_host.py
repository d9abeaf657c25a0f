"""Taking down an instance takes what its cells have on this host: those of killed runs, not those of living ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from harness.machines.reach.ssh import Owner, control_directory, held
from harness.providers.on_host import take_down


class Instance:
    """An instance whose files are gone once it is down."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def down(self) -> None:
        self._kubeconfig.unlink()


@pytest.mark.parametrize("alive", [False, True])
def test_folders_of_cells_go_with_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kubeconfig, folder = tmp_path / "kubeconfig", control_directory("run111", "cell")
    kubeconfig.touch()
    instance: Any = Instance(kubeconfig)
    with held(folder, Owner(str(kubeconfig), time.time() + 3600)):
        if alive:
            take_down(instance)
            assert folder.is_dir()
            return
    take_down(instance)
    assert not folder.exists()
