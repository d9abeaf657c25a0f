"""What goes into a node image, and what its images are called."""

from __future__ import annotations

import yaml

from harness.artifacts import catalogue as entries
from harness.artifacts.node import contents

CATALOGUE = entries.load()


VERSION = "1.36.3"


def test_a_node_has_every_image_that_kubeadm_asks_for() -> None:
    names = {ref.name.removeprefix("image/") for ref in contents.images(CATALOGUE, VERSION)}

    control_plane = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"}
    assert control_plane | {"etcd", "coredns", "pause"} <= names
    assert "e2e-test-images/agnhost" not in names  # only tests want it


def test_images_are_named_where_nobody_can_publish() -> None:
    assert {contents.reference(ref).partition("/")[0] for ref in contents.images(CATALOGUE, VERSION)} == {
        "vmatrix.invalid"
    }


def test_the_storage_names_images_that_are_in_the_node() -> None:
    wanted = contents.images(CATALOGUE, VERSION)
    text = contents.texts(VERSION, wanted)["/kind/manifests/default-storage.yaml"]

    objects = list(yaml.safe_load_all(text))
    deployment = next(o for o in objects if o["kind"] == "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    helper = yaml.safe_load(next(o for o in objects if o["kind"] == "ConfigMap")["data"]["helperPod.yaml"])
    held = {contents.reference(ref) for ref in wanted}
    assert {image, helper["spec"]["containers"][0]["image"]} <= held
    assert [o["metadata"]["name"] for o in objects if o["kind"] == "StorageClass"] == ["standard"]
