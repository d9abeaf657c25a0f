"""Node images: the root file system, the archive's layer and how it runs; each made at most once."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import yaml

from harness.artifacts import catalogue as entries
from harness.artifacts import node_images


def test_the_archive_holds_the_layer_and_how_it_runs(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"layer")

    node_images.write_archive(tmp_path / "image.tar", layer, "vmatrix/kind-node:v1-abc")

    with tarfile.open(tmp_path / "image.tar") as archive:
        held = {name: (archive.extractfile(name) or layer.open("rb")).read() for name in archive.getnames()}
    (manifest,) = json.loads(held["manifest.json"])
    config = json.loads(held[manifest["Config"]])
    assert manifest["RepoTags"] == ["vmatrix/kind-node:v1-abc"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(held[manifest['Layers'][0]]).hexdigest()}"]
    assert config["config"]["Entrypoint"] == ["/usr/local/bin/entrypoint", "/sbin/init"]
    assert config["config"]["StopSignal"] == "SIGRTMIN+3"


CATALOGUE = entries.load()


VERSION = "1.36.3"


def test_a_node_has_every_image_that_kubeadm_asks_for() -> None:
    names = {ref.name.removeprefix("image/") for ref in node_images.node_container_images(CATALOGUE, VERSION)}

    control_plane = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"}
    assert control_plane | {"etcd", "coredns", "pause"} <= names
    assert "e2e-test-images/agnhost" not in names  # only tests want it


def test_images_are_named_where_nobody_can_publish() -> None:
    assert {
        node_images.reference(ref).partition("/")[0] for ref in node_images.node_container_images(CATALOGUE, VERSION)
    } == {"vmatrix.invalid"}


def test_the_storage_names_images_that_are_in_the_node() -> None:
    wanted = node_images.node_container_images(CATALOGUE, VERSION)
    text = node_images.node_texts(VERSION, wanted)["/kind/manifests/default-storage.yaml"]

    objects = list(yaml.safe_load_all(text))
    deployment = next(o for o in objects if o["kind"] == "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    helper = yaml.safe_load(next(o for o in objects if o["kind"] == "ConfigMap")["data"]["helperPod.yaml"])
    held = {node_images.reference(ref) for ref in wanted}
    assert {image, helper["spec"]["containers"][0]["image"]} <= held
    assert [o["metadata"]["name"] for o in objects if o["kind"] == "StorageClass"] == ["standard"]


def test_kind_s_files_get_the_programs_and_the_sandbox_s_image(tmp_path: Path) -> None:
    root, files = tmp_path / "root", tmp_path / "files"
    (root / "etc/systemd").mkdir(parents=True)
    (files / "etc/containerd").mkdir(parents=True)
    (files / "etc/containerd/config.toml").write_text('  sandbox_image = "somewhere/pause:1"\n')
    (files / "kind/bin").mkdir(parents=True)
    (files / "kind/bin/hook.sh").write_text("#!/bin/sh\n")
    ctr = tmp_path / "ctr"
    ctr.write_text('#!/bin/sh\necho \'{"process": {"rlimits": [1], "args": []}}\'\n')

    node_images.arrange(root, files, {"/usr/local/bin/ctr": ctr}, {"/kind/version": "v1.36.3"}, pause="x/pause:2")

    assert (root / "etc/containerd/config.toml").read_text() == '  sandbox_image = "x/pause:2"\n'
    spec = json.loads((root / "etc/containerd/cri-base.json").read_text())
    assert "rlimits" not in spec["process"]
    assert spec["hooks"]["createContainer"] == [node_images.HOOK]
    assert (root / "kind/bin/hook.sh").stat().st_mode & 0o111
    assert (root / "etc/systemd/system/multi-user.target.wants/kubelet.service").is_symlink()
