"""The lists of curated specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import project_dir
from harness.validate.conformance import curated
from harness.validate.conformance.curated import CHECKS, load_curated


def test_every_list_in_the_matrix_can_be_loaded() -> None:
    lists = sorted((project_dir() / "matrix" / "conformance").glob("*.yml"))
    assert lists
    for path in lists:
        loaded = load_curated(path.stem)
        assert all("[Conformance]" in spec.name for spec in loaded.specs)
        assert loaded.may_be_missing < {*loaded.images.values()} - {loaded.images[name] for name in CHECKS}
        assert not [spec.name for spec in loaded.specs if "[Serial]" in spec.name or "[Slow]" in spec.name]


def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "1.99.yml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(curated, "curated_path", lambda _: path)


@pytest.mark.parametrize(
    "text",
    [
        "- not a mapping",
        "kubernetes: '1.98'\nimages: {agnhost: a:1}\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {}\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: []",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{name: x}, {name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{name: x, images: [nginx]}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{images: [agnhost]}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1, busybox: b:1}\nmay_be_missing: [nginx]\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1, busybox: b:1}\nseed: -1\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1, busybox: b:1}\nseed: true\nspecs: [{name: x}]",
        "kubernetes: [",
    ],
)
def test_a_malformed_list_is_refused_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    write(tmp_path, monkeypatch, text)
    with pytest.raises(BadInput, match="malformed") as refused:
        load_curated("1.99")
    assert refused.value.paths == (tmp_path / "1.99.yml",)


def test_a_minor_without_a_list_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadInput, match=r"1\.7") as refused:
        load_curated("1.7")
    assert "--list-tests" in refused.value.hint
