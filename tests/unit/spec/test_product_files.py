"""What product.yml asks of the mirror is checked when it is read: one message for each mistake, at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.spec import load_spec
from tests.image_archives import docker_files, write_tar
from tests.unit.spec.conftest import MATRIX


def artifacts(matrix: Path, text: str) -> Path:
    (matrix / "product.yml").write_text(f"{MATRIX['product.yml']}  artifacts: {text}\n", encoding="utf-8")
    return matrix


def problems(matrix: Path, text: str) -> list[str]:
    with pytest.raises(BadInput) as refused:
        load_spec(artifacts(matrix, text))
    assert refused.value.exit_code == 2
    return refused.value.summary.splitlines()[1:]


def test_a_product_asks_for_a_folder_programs_and_images(matrix: Path) -> None:
    (matrix.parent / "mirror").mkdir()
    write_tar(matrix.parent / "agent.tar", docker_files("our/agent:1.2"))
    text = """{folder: mirror,
      serve: [kubelet, runc@1.5.2, {artifact: etcd, as: "x/etcd-{version}.tar.gz", inside: bin}],
      images: [coredns, {artifact: coredns, as: coredns/coredns}, {archive: agent.tar},
        {archive: agent.tar, name: a:1}]}
    """.strip()
    found = load_spec(artifacts(matrix, text)).product.artifacts
    assert found is not None
    assert (found.folder, len(found.serve), len(found.images)) == ("mirror", 3, 4)


def test_without_the_key_nothing_is_said(matrix: Path) -> None:
    assert load_spec(matrix).product.artifacts is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{folder: mirror}", "folder: the folder {here}/mirror does not exist"),
        ("{images: [{archive: a.tar}]}", "images[0].archive: the image archive {here}/a.tar does not exist"),
        (
            "{images: [{archive: broken.tar, name: a:1}]}",
            "images[0].archive: the image archive {here}/broken.tar is no",
        ),
        ("{images: [{archive: nameless.tar}]}", "does not say what its image is called; add `name: REPOSITORY:TAG`"),
        (
            "{images: [{archive: named.tar}, {archive: nameless.tar, name: our/agent:1.2}]}",
            "images[1].archive: our/agent:1.2 is already the image of named.tar",
        ),
        ("{images: [{archive: named.tar, name: agent}]}", "expected REPOSITORY:TAG, without a registry, got 'agent'"),
        (
            '{serve: [{artifact: runc, as: "r-{versoin}"}]}',
            "unknown field {versoin} in 'r-{versoin}'; known: name, version",
        ),
        ('{serve: [{artifact: runc, as: "r-{version:d}"}]}', "unknown field {version:d}"),
        ('{serve: [{artifact: runc, as: "r-{"}]}', "not a template"),
        ("{serve: [{artifact: runc, as: /r}]}", "'/r' is not a path below the mirror's files"),
        ("{serve: [{artifact: runc, as: a/../r}]}", "is not a path below the mirror's files"),
        ("{serve: [{artifact: runc, as: r.tar.xz}]}", "only .tar.gz, .tgz, .tar archives can be made"),
        (
            "{serve: [{artifact: runc, as: r}, {artifact: crictl, as: r}]}",
            "serve[1].as: r is already the path of runc; a path serves one file",
        ),
        ("{serve: [{artifact: runc, as: r, at: r}]}", "serve[0].at: unknown key; known: artifact, as, inside"),
        ("{serve: [[runc]]}", "expected NAME, NAME@VERSION or {artifact: NAME, as: PATH"),
        ("{serve: [RUNC]}", "expected NAME or NAME@VERSION of what `vmatrix artifacts list` shows"),
        ("{images: [7]}", "expected NAME, NAME@TAG, {artifact: NAME, as: REPOSITORY} or {archive: PATH"),
    ],
)
def test_each_mistake_is_one_message_with_its_line(matrix: Path, text: str, said: str) -> None:
    here = matrix.parent
    (here / "broken.tar").write_text("no archive")
    write_tar(here / "nameless.tar", docker_files())
    write_tar(here / "named.tar", docker_files("our/agent:1.2"))
    found = problems(matrix, text)
    assert len(found) == 1, found
    assert said.replace("{here}", str(here)) in found[0]
    assert found[0].startswith(f"{matrix}/product.yml:{len(MATRIX['product.yml'].splitlines()) + 1}: ")


def test_what_is_checked_reads_no_layers(matrix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Any] = docker_files("our/agent:1.2")
    write_tar(matrix.parent / "agent.tar", {**files, "layer.tar": b"x" * (5 << 20)})
    assert load_spec(artifacts(matrix, "{images: [{archive: agent.tar}]}")).product.artifacts is not None


def test_files_may_lie_in_the_sources_and_are_judged_once_these_are_there(
    matrix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = '{folder: "{sources}/mirror", images: [{archive: "{sources}/agent.tar"}]}'
    text = f"{here}\n  sources: {{git: https://example.org/p.git, revision: v1}}"
    assert load_spec(artifacts(matrix, text)).product.artifacts is not None
    (tmp_path / "sources").mkdir()
    monkeypatch.setenv("VMATRIX_PRODUCT_SOURCES", str(tmp_path / "sources"))
    assert [line.partition("artifacts.")[2].partition(":")[0] for line in problems(matrix, text)] == [
        "folder",
        "images[0].archive",
    ]
    (tmp_path / "sources" / "mirror").mkdir()
    write_tar(tmp_path / "sources" / "agent.tar", docker_files("our/agent:1.2"))
    assert load_spec(artifacts(matrix, text)).product.artifacts is not None
