"""An instance stays what it was made as."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.infra.host.layout import Layout
from harness.infra.kind import record
from harness.infra.kind.config import KindConfig, KubeVirt, OwnNode


def config(kubevirt: KubeVirt | None) -> KindConfig:
    return KindConfig(
        kubevirt=kubevirt,
        version="1.36.3",
        node_image=None,
        releases=Path("releases.yml"),
        kind=lambda: Path("kind"),
        own_node=lambda: OwnNode("image", Path("archive"), "repository"),
        own_node_made=lambda: True,
        say=lambda _: None,
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout("a", tmp_path)


def test_a_new_one_gets_the_releases_unless_asked_otherwise(layout: Layout) -> None:
    assert record.wanted(layout, config(None)).kubevirt == "release"
    assert record.wanted(layout, config("embedded")).kubevirt == "embedded"


def test_one_that_is_there_is_taken_as_it_is(layout: Layout) -> None:
    record.save(layout, record.Made("embedded", "1.36.3"))

    assert record.wanted(layout, config(None)) == record.Made("embedded", "1.36.3")


def test_one_that_is_there_does_not_change_its_version(layout: Layout) -> None:
    record.save(layout, record.Made("embedded", "1.35.4"))

    with pytest.raises(BadInput, match=r"was made with Kubernetes 1\.35\.4, not 1\.36\.3"):
        record.wanted(layout, config(None))


def test_one_that_is_there_is_not_turned_into_the_other(layout: Layout) -> None:
    record.save(layout, record.Made("embedded", "1.36.3"))

    with pytest.raises(BadInput, match="was made with --kubevirt embedded"):
        record.wanted(layout, config("release"))


def test_a_damaged_record_is_none(layout: Layout) -> None:
    (layout.root / "kind.json").write_text("{")

    assert record.load(layout) is None
