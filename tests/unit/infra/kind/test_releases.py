"""Releases of KubeVirt and CDI: the file, its checksums, and what is made of their manifests."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput, InfraError
from harness.infra.kind import kubevirt, releases

SUM = "0" * 64
TEXT = """\
kubevirt:
  version: v1.9.0
  operator: {{url: http://host.invalid/kubevirt-operator.yaml, sha256: "{0}"}}
  resource: {{url: http://host.invalid/kubevirt-cr.yaml, sha256: "{1}"}}
cdi:
  version: v1.66.0
  operator: {{url: http://host.invalid/cdi-operator.yaml, sha256: "{1}"}}
  resource: {{url: http://host.invalid/cdi-cr.yaml, sha256: "{1}"}}
"""


def file(folder: Path, text: str) -> Path:
    written = folder / "releases.yml"
    written.write_text(text)
    return written


def test_the_shipped_file_is_in_order() -> None:
    found = releases.load(releases.default_file())

    assert found.kubevirt.version in found.kubevirt.operator.url
    assert found.cdi.version in found.cdi.resource.url
    assert len({m.url for m in (*found.kubevirt.manifests, *found.cdi.manifests)}) == 4


def test_what_has_no_checksum_is_refused_with_its_line_and_the_command(tmp_path: Path) -> None:
    found = releases.load(file(tmp_path, TEXT.format("", SUM)))

    with pytest.raises(BadInput) as refused:
        releases.require_pinned(found)

    assert "releases.yml:3" in refused.value.summary
    assert "kubevirt-operator.yaml has no sha256" in refused.value.summary
    assert "vmatrix infra pin" in refused.value.hint


def test_what_has_all_checksums_is_accepted(tmp_path: Path) -> None:
    releases.require_pinned(releases.load(file(tmp_path, TEXT.format(SUM, SUM))))


URL = "http://host.invalid/a.yaml"
FORMS = [
    f"{{url: {URL}, sha256: ''}}",
    f'{{url: "{URL}", sha256: ""}}',
    f"{{sha256: '', url: '{URL}'}}",
    f'{{"url": "{URL}", "sha256": ""}}',
    f"{{url: {URL}, sha256: }}",
    f"{{url: {URL}, sha256: ~}}",
    f"{{url: {URL}}}",
    f'{{sha256: "", url: {URL} }} # from the page',
    f"\n    url: {URL}\n    sha256: ''",
    f"\n    url: {URL} # the release's\n    sha256: # to come",
    f"\n    url: >-\n      {URL}",
    f"\n    # a note\n    'url': '{URL}'\n",
    f"\n      sha256:\n      url: |-\n        {URL}",
    f"{{url: '<{URL}>', sha256: ''}}",
    f"{{url: '[the operator]({URL})', sha256: ''}}",
    f"{{url: '[the operator]({URL} \"title\")', sha256: ''}}",
    f"{{url: '`{URL}`', sha256: ''}}",
    f"{{url: '\"{URL}\"', sha256: ''}}",
    f"{{url: ' {URL} ', sha256: ''}}",
]
ENDS = ["\n", "\r\n"]


@pytest.mark.parametrize("end", ENDS, ids=["lf", "crlf"])
@pytest.mark.parametrize("form", FORMS)
def test_a_manifest_is_pinned_in_every_form_in_which_yaml_has_it(
    form: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def download(url: str) -> bytes:
        asked.append(url)
        return b"x"

    monkeypatch.setattr(releases, "_download", download)
    lines = TEXT.format(SUM, SUM).splitlines()
    lines[2] = f"  operator: {form}"
    text = "\n".join(["# a comment", *lines, "# the end", ""]).replace("\n", end)
    written = tmp_path / "releases.yml"
    written.write_bytes(text.encode())

    ((manifest, checksum),) = releases.pin(written)

    assert asked == [URL]
    assert (manifest.url, checksum) == (URL, hashlib.sha256(b"x").hexdigest())
    after = releases.load(written)
    assert (after.missing(), after.kubevirt.operator.sha256) == ([], checksum)
    assert written.read_bytes().decode().startswith("# a comment" + end)
    assert written.read_bytes().decode().endswith("# the end" + end)
    assert [*releases.pin(written)] == []


@pytest.mark.parametrize("where", ["a project", "a project with a file", "no project", "another file"])
def test_the_first_use_of_a_release_pins_it_and_later_ones_are_verified(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged, here = tmp_path / "packaged", tmp_path / "here"
    for folder in (packaged / "deploy" / "kind", here, tmp_path / "served"):
        folder.mkdir(parents=True)
    for name in ("kubevirt-operator", "kubevirt-cr", "cdi-operator", "cdi-cr"):
        (tmp_path / "served" / f"{name}.yaml").write_text(f"kind: {name}\n")
    monkeypatch.setattr(releases, "packaged_dir", lambda: packaged)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VMATRIX_PROJECT", raising=False)
    monkeypatch.chdir(here)
    with serving(tmp_path / "served") as (server, gets):
        text = TEXT.format("", "").replace("http://host.invalid", server)
        (packaged / releases.FILE).write_text(text)
        given = file(tmp_path, text) if where == "another file" else None
        expected = given or here / releases.FILE
        if where == "no project":
            expected = tmp_path / "state" / "vmatrix" / "releases.yml"
        elif where != "another file":
            (here / "vmatrix.yml").touch()
        if where == "a project with a file":
            expected.parent.mkdir(parents=True)
            expected.write_text(text.replace('sha256: ""', "sha256: ~"))
        said = list[str]()

        first = releases.pinned(given, said.append)
        assert first.missing() == []
        assert (first.file, gets.count) == (expected, 4)
        assert len(said) == 5
        assert str(expected) in said[-1]
        assert (packaged / releases.FILE).read_text() == text, "what is installed stays"

        assert releases.pinned(given, said.append) == first
        assert len(said) == 5
        assert "kubevirt-cr" in kubevirt.fetch(first)[f"{server}/kubevirt-cr.yaml"]
        (tmp_path / "served" / "cdi-cr.yaml").write_text("kind: Another\n")
        shutil.rmtree(tmp_path / "cache")
        with pytest.raises(InfraError, match=r"cdi-cr\.yaml has the wrong checksum"):
            kubevirt.fetch(releases.pinned(given, said.append))


class Gets:
    """How many files were asked for."""

    count = 0


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Gets]]:
    """Serve a folder; give its address, and how often it was asked."""
    gets = Gets()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_GET(self) -> None:
            gets.count += 1
            super().do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", gets
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("wrong", ["abc", "g" * 64])
def test_a_checksum_that_is_none_is_refused_with_its_line(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(BadInput) as refused:
        releases.load(file(tmp_path, TEXT.format(wrong, SUM)))

    assert "releases.yml:3" in f"{refused.value.summary}{refused.value.detail}"


def test_a_manifest_that_is_kept_is_not_asked_for_again(tmp_path: Path) -> None:
    content = b"kind: Namespace\n"
    checksum = hashlib.sha256(content).hexdigest()
    (tmp_path / checksum).write_bytes(content)
    manifest = releases.Manifest(url="http://host.invalid/x.yaml", sha256=checksum)

    assert releases.obtain(manifest, tmp_path) == content.decode()


@pytest.mark.parametrize("text", ["", "---\n---\n", "just a word", "a: {"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(InfraError):
        kubevirt.documents(text, source="x.yaml")


def test_settings_are_joined_into_a_release_s_own() -> None:
    body = {"spec": {"configuration": {"developerConfiguration": {"featureGates": ["A"]}}, "x": 1}}

    answer = kubevirt.merged(body, kubevirt.kubevirt_settings(emulation=True, image_volume=False))

    developer = answer["spec"]["configuration"]["developerConfiguration"]
    assert developer == {"featureGates": ["A"], "useEmulation": True, "disabledFeatureGates": ["ImageVolume"]}
    assert answer["spec"]["x"] == 1
    assert "useEmulation" not in body["spec"]["configuration"]["developerConfiguration"]  # type: ignore[index]


def test_nothing_is_said_where_the_release_is_right() -> None:
    assert kubevirt.kubevirt_settings(emulation=False, image_volume=True) == {}


@pytest.mark.parametrize(
    ("kubelet", "runtime", "mounts"),
    [
        ("v1.36.3", "containerd://2.4.2", True),
        ("v1.34.4", "containerd://2.4.2", False),
        ("v1.36.3", "containerd://1.7.24", False),
        ("v1.36.3", "cri-o://1.36.0", True),
    ],
)
def test_images_are_mounted_since_certain_versions(kubelet: str, runtime: str, mounts: bool) -> None:
    assert kubevirt.mounts_images({"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}) is mounts
