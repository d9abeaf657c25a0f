"""What product.yml asks of the mirror is checked when it is read: one message for each mistake, at its line."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.spec import load_spec
from harness.spec.product_files import look
from tests.image_archives import docker_files, oci_files, write_layout, write_tar
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


NAME, REF = "io.containerd.image.name", "org.opencontainers.image.ref.name"


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["registry.example:5000/our/agent:1.2"], "our/agent:1.2"),
        (["docker.io/library/nginx:1"], "library/nginx:1"),
        (["our/agent:1.2"], "our/agent:1.2"),
        (["agent:1.2"], "agent:1.2"),
        ([], ""),
        (["a:1", "b:1"], ""),
    ],
)
def test_a_docker_archive_says_what_its_image_is_called(tmp_path: Path, tags: list[str], name: str) -> None:
    found = look(write_tar(tmp_path / "a.tar", docker_files(*tags)))
    assert (found.form, found.name, found.digest) == ("docker", name, "")


@pytest.mark.parametrize(
    ("notes", "name"),
    [({NAME: "docker.io/our/agent:1.2", REF: "1.2"}, "our/agent:1.2"), ({REF: "1.2"}, ""), ({REF: "a/b:1"}, "a/b:1")],
)
def test_an_oci_layout_says_it_in_its_index(tmp_path: Path, notes: dict[str, str], name: str) -> None:
    files = oci_files(notes)
    packed, folder = look(write_tar(tmp_path / "a.tar", files)), look(write_layout(tmp_path / "layout", files))
    assert (packed.form, folder.form) == ("oci", "layout")
    assert packed.name == folder.name == name
    assert packed.digest == folder.digest
    assert packed.digest.startswith("sha256:")


def test_names_in_an_archive_may_begin_with_a_dot(tmp_path: Path) -> None:
    files = {f"./{name}": content for name, content in oci_files({REF: "a:1"}).items()}
    assert look(write_tar(tmp_path / "a.tar", files)).name == "a:1"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"x": b""}, "is broken: it lacks index.json"),
        ({"manifest.json": b"{"}, "manifest.json is not JSON"),
        (docker_files("a:1", images=2), "has 2 images; it needs to have one"),
        (
            {k: v for k, v in docker_files("a:1").items() if k != "layer.tar"},
            "lacks layer.tar, which manifest.json names",
        ),
        (oci_files(more=[{}]), "has 2 images"),
        (oci_files(kind="application/vnd.oci.image.index.v1+json"), "for several platforms"),
        ({"index.json": oci_files()["index.json"]}, "it lacks blobs/sha256/"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        look(write_tar(tmp_path / "a.tar", files))


KINDS: dict[str, Any] = {"null": None, "text": "x", "list": [1], "number": 7, "nested": {"a": [{}]}, "truth": True}
ABSENT = object()


def with_value(content: Any, at: tuple[str | int, ...], value: Any) -> Any:
    """Return plain data with another value at a place, or without what is there."""
    if not at:
        return value
    made = content.copy()
    if len(at) == 1 and value is ABSENT:
        del made[at[0]]
    else:
        made[at[0]] = with_value(made[at[0]], at[1:], value)
    return made


# Form, place in the file that is judged, kinds of values that it may have.
SHAPES: list[tuple[str, tuple[str | int, ...], set[str]]] = [
    ("docker", (), set()),
    ("docker", (0,), set()),
    ("docker", (0, "Config"), set()),
    ("docker", (0, "RepoTags"), {"null", "absent"}),
    ("docker", (0, "RepoTags", 0), {"text", "absent"}),
    ("docker", (0, "Layers"), set()),
    ("docker", (0, "Layers", 0), set()),
    ("index", (), set()),
    ("index", ("manifests",), set()),
    ("index", ("manifests", 0), set()),
    ("index", ("manifests", 0, "mediaType"), {"null", "text", "absent"}),
    ("index", ("manifests", 0, "digest"), set()),
    ("index", ("manifests", 0, "annotations"), {"null", "absent"}),
    ("index", ("manifests", 0, "annotations", NAME), {"text", "absent"}),
    ("manifest", (), set()),
    ("manifest", ("config",), set()),
    ("manifest", ("config", "digest"), set()),
    ("manifest", ("layers",), set()),
    ("manifest", ("layers", 0), set()),
    ("manifest", ("layers", 0, "digest"), set()),
]
MISSHAPEN = [
    (form, at, kind)
    for form, at, fine in SHAPES
    for kind in (*KINDS, "absent")
    if kind not in fine and (kind != "absent" or at)
]


@pytest.mark.parametrize(("form", "at", "kind"), MISSHAPEN, ids=str)
def test_a_value_of_a_wrong_type_is_said_with_archive_and_file(
    tmp_path: Path, form: str, at: tuple[str | int, ...], kind: str
) -> None:
    files = docker_files("a:1") if form == "docker" else oci_files({NAME: "a:1"})
    digest = "" if form == "docker" else json.loads(files["index.json"])["manifests"][0]["digest"]
    file = {"docker": "manifest.json", "index": "index.json"}.get(form, f"blobs/{digest.replace(':', '/')}")
    changed = with_value(json.loads(files[file]), at, KINDS.get(kind, ABSENT))
    archive = write_tar(tmp_path / "a.tar", {**files, file: json.dumps(changed).encode()})
    with pytest.raises(ValueError, match=re.escape(f"the image archive {archive} ")) as refused:
        look(archive)
    said = str(refused.value)
    assert "None" not in said
    if "has 0 images" not in said:
        assert file in said
        assert said.endswith("; write the archive again")


def test_the_place_of_a_wrong_type_is_said(tmp_path: Path) -> None:
    content = {**oci_files(), "index.json": b'{"manifests": [{"digest": ["x"]}]}'}
    with pytest.raises(ValueError, match=r"broken: index\.json: manifests\[0\]\.digest: expected a string, got a list"):
        look(write_tar(tmp_path / "a.tar", content))


@pytest.mark.parametrize("tag", ["Our/agent:1", "a b:1", "a:1\0"])
def test_a_name_that_no_registry_takes_is_none(tmp_path: Path, tag: str) -> None:
    assert look(write_tar(tmp_path / "a.tar", docker_files(tag))).name == ""


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        look(tmp_path / "none.tar")
    (tmp_path / "text.tar").write_text("text")
    with pytest.raises(ValueError, match="is not an uncompressed tar archive"):
        look(tmp_path / "text.tar")
    packed = write_tar(tmp_path / "a.tar", docker_files("a:1"))
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(packed.read_bytes()))
    with pytest.raises(ValueError, match="is not an uncompressed tar archive"):
        look(tmp_path / "a.tar.gz")
