"""An instance stays what it was made as."""

from __future__ import annotations

from dataclasses import replace
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

    assert record.wanted(layout, replace(config(None), releases=None)) == record.Made("embedded", "1.36.3")


def test_one_that_is_there_does_not_change_its_version(layout: Layout) -> None:
    record.save(layout, record.Made("embedded", "1.35.4"))

    with pytest.raises(BadInput, match=r"was made with Kubernetes 1\.35\.4, not 1\.36\.3"):
        record.wanted(layout, config(None))


def test_one_that_is_there_is_not_turned_into_the_other(layout: Layout) -> None:
    record.save(layout, record.Made("embedded", "1.36.3"))

    with pytest.raises(BadInput, match="was made with --kubevirt embedded"):
        record.wanted(layout, config("release"))


def test_what_was_chosen_and_installed_is_kept(layout: Layout) -> None:
    made = record.Made("release", "1.36.3", "hide", Path("/x.yml"), record.Installed("v1", "v2", ("kubevirt/op",)))
    record.save(layout, made)

    assert record.load(layout) == made
    assert record.wanted(layout, replace(config(None), releases=None)) == made


def test_what_is_chosen_anew_replaces_what_was(layout: Layout) -> None:
    record.save(layout, record.Made("release", "1.36.3", "hide", Path("/x.yml")))

    found = record.wanted(layout, replace(config(None), kvm="use"))

    assert (found.kvm, found.releases) == ("use", Path("releases.yml"))


def test_a_record_of_before_knows_of_no_whole_installation(layout: Layout) -> None:
    (layout.root / "kind.json").write_text('{"kubevirt": "release", "version": "1.36.3"}')

    assert record.load(layout) == record.Made("release", "1.36.3")


def test_a_damaged_record_is_none(layout: Layout) -> None:
    (layout.root / "kind.json").write_text("{")

    assert record.load(layout) is None
