"""Wrapper modules: each staging repository of Kubernetes is replaced by the release that was cut with it."""

from __future__ import annotations

import re

import pytest

from harness.artifacts.catalogue import load, module_dir
from harness.artifacts.modules import staging_modules, staging_version

CATALOGUE = load()


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_every_staging_repository_is_replaced_by_the_release_cut_with_it(version: str) -> None:
    text = (module_dir("kubernetes", version) / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (k8s\.io/\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert all(left == right and cut == staging_version(version) for left, right, cut in replaced)


def test_staging_repositories_are_those_at_the_placeholder_version() -> None:
    text = "require (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.140.0\n\tk8s.io/kubelet v0.0.0 // indirect\n)\n"
    assert staging_modules(text) == ("k8s.io/api", "k8s.io/kubelet")
    assert staging_version("1.36.3") == "v0.36.3"
