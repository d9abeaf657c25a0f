"""Releases of KubeVirt and CDI: the file, its checksums, and what is made of their manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput, InfraError
from harness.infra.kind import install, releases

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


@pytest.mark.parametrize("wrong", ["abc", "g" * 64])
def test_a_checksum_that_is_none_is_refused_with_its_line(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(BadInput) as refused:
        releases.load(file(tmp_path, TEXT.format(wrong, SUM)))

    assert "releases.yml:3" in f"{refused.value.summary}{refused.value.detail}"


def test_a_manifest_that_is_kept_is_not_asked_for_again(tmp_path: Path) -> None:
    content = b"kind: Namespace\n"
    import hashlib

    checksum = hashlib.sha256(content).hexdigest()
    (tmp_path / checksum).write_bytes(content)
    manifest = releases.Manifest(url="http://host.invalid/x.yaml", sha256=checksum)

    assert releases.obtain(manifest, tmp_path) == content.decode()


@pytest.mark.parametrize("text", ["", "---\n---\n", "just a word", "a: {"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(InfraError):
        install.documents(text, source="x.yaml")


def test_settings_are_joined_into_a_release_s_own() -> None:
    body = {"spec": {"configuration": {"developerConfiguration": {"featureGates": ["A"]}}, "x": 1}}

    answer = install.merged(body, install.kubevirt_settings(emulation=True, image_volume=False))

    developer = answer["spec"]["configuration"]["developerConfiguration"]
    assert developer == {"featureGates": ["A"], "useEmulation": True, "disabledFeatureGates": ["ImageVolume"]}
    assert answer["spec"]["x"] == 1
    assert "useEmulation" not in body["spec"]["configuration"]["developerConfiguration"]  # type: ignore[index]


def test_nothing_is_said_where_the_release_is_right() -> None:
    assert install.kubevirt_settings(emulation=False, image_volume=True) == {}


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
    assert install.mounts_images({"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}) is mounts
