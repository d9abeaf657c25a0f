"""An instance stays what it was made as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.infra.host.layout import Layout
from harness.infra.kind.config import Installed, KindConfig, KubeVirt, Made, OwnNode, load_record, save_record, wanted


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
    assert wanted(layout, config(None)).kubevirt == "release"
    assert wanted(layout, config("embedded")).kubevirt == "embedded"


def test_one_that_is_there_is_taken_as_it_is(layout: Layout) -> None:
    save_record(layout, Made("embedded", "1.36.3"))

    assert wanted(layout, replace(config(None), releases=None)) == Made("embedded", "1.36.3")


def test_one_that_is_there_does_not_change_its_version(layout: Layout) -> None:
    save_record(layout, Made("embedded", "1.35.4"))

    with pytest.raises(BadInput, match=r"was made with Kubernetes 1\.35\.4, not 1\.36\.3"):
        wanted(layout, config(None))


def test_one_that_is_there_is_not_turned_into_the_other(layout: Layout) -> None:
    save_record(layout, Made("embedded", "1.36.3"))

    with pytest.raises(BadInput, match="was made with --kubevirt embedded"):
        wanted(layout, config("release"))


def test_what_was_chosen_and_installed_is_kept(layout: Layout) -> None:
    made = Made("release", "1.36.3", "hide", Path("/x.yml"), Installed("v1", "v2", ("kubevirt/op",)))
    save_record(layout, made)

    assert load_record(layout) == made
    assert wanted(layout, replace(config(None), releases=None)) == made


def test_what_is_chosen_anew_replaces_what_was(layout: Layout) -> None:
    save_record(layout, Made("release", "1.36.3", "hide", Path("/x.yml")))

    found = wanted(layout, replace(config(None), kvm="use"))

    assert (found.kvm, found.releases) == ("use", Path("releases.yml"))


def test_a_record_of_before_knows_of_no_whole_installation(layout: Layout) -> None:
    (layout.root / "kind.json").write_text('{"kubevirt": "release", "version": "1.36.3"}')

    assert load_record(layout) == Made("release", "1.36.3")


def test_a_damaged_record_is_none(layout: Layout) -> None:
    (layout.root / "kind.json").write_text("{")

    assert load_record(layout) is None
