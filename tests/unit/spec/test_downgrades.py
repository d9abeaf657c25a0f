"""A value that comes after a later version, or after another runtime, is refused at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.spec import load_spec
from harness.spec.downgrades import check
from harness.spec.lines import Finding


def found(before: dict[str, str], after: dict[str, str]) -> list[Finding]:
    """Return what is found of a value of which another one with these variables is the earlier one."""
    values = [{"id": "old", "vars": before}, {"id": "new", "before": {"major": "old"}, "vars": after}]
    return list(check([(("axes", 0, "values", number), value) for number, value in enumerate(values)]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1.7.35", "2.4.2"),
        ("2.4.2", "2.4.2"),
        ("2.9.0", "2.10.0"),
        ("{{ newest }}", "2.4.2"),
        ("2.4.2", "latest"),
    ],
)
def test_a_later_or_an_equal_version_and_one_that_is_no_number_pass(before: str, after: str) -> None:
    assert found({"cluster_containerd_version": before}, {"cluster_containerd_version": after}) == []


@pytest.mark.parametrize("program", ["kubernetes", "etcd", "containerd", "crio"])
def test_an_earlier_value_of_a_later_version_is_found(program: str) -> None:
    ((at, message),) = found({f"cluster_{program}_version": "2.10.0"}, {f"cluster_{program}_version": "2.9.3"})
    assert at == ("axes", 0, "values", 1, "before", "major")
    assert f"old has cluster_{program}_version 2.10.0, and this value 2.9.3, which is older" in message


def test_what_comes_with_a_release_may_go_back() -> None:
    assert found({"cluster_coredns_version": "1.14.0"}, {"cluster_coredns_version": "1.13.0"}) == []


def test_another_runtime_is_found_where_both_are_said() -> None:
    ((_, message),) = found({"cluster_container_runtime": "containerd"}, {"cluster_container_runtime": "crio"})
    assert "no upgrade replaces a runtime by another one" in message
    assert found({}, {"cluster_container_runtime": "crio"}) == []


def test_a_project_that_asks_for_it_is_refused_with_file_line_field_and_remedy(tmp_path: Path) -> None:
    own = tmp_path / "matrix"
    own.mkdir()
    (own / "axes.yml").write_text(
        "extends: default\n"
        "axes:\n"
        "  - name: runtime\n"
        "    values:\n"
        "      - {id: containerd-2.4, before: {major: null}}\n"
        "      - id: containerd-1.7\n"
        "        before:\n"
        "          major: containerd-2.4\n",
        encoding="utf-8",
    )
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    said = caught.value.summary
    assert f"{own}/axes.yml:8: axes[2].values[1].before.major: containerd-2.4 has cluster_containerd_version" in said
    assert "name an earlier value, or remove it" in said
