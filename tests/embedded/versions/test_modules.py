"""The committed wrapper modules are what the generator writes today. Needs Go and the module cache or a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts import gomod
from harness.artifacts.catalogue import load, module_dir
from harness.errors import BadInput

OTHERS = [("flannel", "0.28.4"), ("etcd", "3.6.8"), ("metrics-server", "0.9.0"), ("local-path-provisioner", "0.0.30")]


@pytest.mark.parametrize(("module", "version"), [*(("kubernetes", version) for version in load().kubernetes), *OTHERS])
def test_generated_again_it_is_the_same(tmp_path: Path, module: str, version: str) -> None:
    folder = gomod.generate(load(), module, version, tmp_path / "module")
    committed = module_dir(module, version)
    for name in ("go.mod", "go.sum", "tools.go"):
        assert (folder / name).read_text() == (committed / name).read_text(), f"{committed / name} is out of date"


def test_a_version_that_does_not_exist_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no k8s\.io/kubernetes v1\.99\.0"):
        gomod.generate(load(), "kubernetes", "1.99.0", tmp_path / "module")
