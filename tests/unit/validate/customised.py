"""The recorded guest with a customised kubeadm, and what its machines show of it."""

from __future__ import annotations

from typing import Any

import yaml

from harness.paths import packaged_dir
from harness.validate.expected import ExpectedGuest
from harness.validate.topics.customised import SeenScheduler, SeenVolume
from harness.validate.variables import OWN_SCHEDULER, SCHEDULER_FILE
from tests.unit.validate import guests, views
from tests.unit.validate.guests import Json

AXES = yaml.safe_load((packaged_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
(CHOSEN,) = [v["vars"] for axis in AXES if axis["name"] == "kubeadm" for v in axis["values"] if v["id"] == "customised"]


def expected(**more: Any) -> ExpectedGuest:
    """Return what a guest with a customised kubeadm must look like."""
    return guests.expected(variables={**guests.VARIABLES, **CHOSEN, **more})


def patched(raw: Json) -> None:
    """Give the recorded objects what the cell's patches give them."""
    server = views.named(raw["pods"], "kube-apiserver-cp-0")
    server["metadata"].setdefault("annotations", {})["vmatrix/patched"] = "strategic"
    for name, memory in (("kube-apiserver", "200Mi"), ("etcd", "110Mi")):
        (container,) = views.named(raw["pods"], f"{name}-cp-0")["spec"]["containers"]
        container.update(name=name, resources={"requests": {"memory": memory, "cpu": "100m"}})
    for name, value in (("kube-controller-manager", "merge"), ("kube-scheduler", "json")):
        views.named(raw["pods"], f"{name}-cp-0")["metadata"].setdefault("labels", {})["patched"] = value
    deployment = views.named(raw["deployments"], "coredns")
    deployment["metadata"].setdefault("labels", {})["patched"] = "strategic"
    limits = {"name": "coredns", "resources": {"limits": {"memory": "180Mi"}}}
    deployment["spec"]["template"] = {"spec": {"containers": [{**limits, "image": "coredns"}]}}
    for pod in raw["pods"]:
        if pod["metadata"]["name"].startswith("coredns-"):
            pod["metadata"]["labels"] = {"k8s-app": "kube-dns"}
            pod["spec"]["containers"][0].update(limits)


def scheduler(**more: Any) -> SeenScheduler:
    """Return a scheduler as the cell wants it, which reports its settings in its own case of letters."""
    content = {**OWN_SCHEDULER, **CHOSEN["cluster_scheduler_config"]}
    profiles = [{"schedulerName": "second-scheduler"}, *CHOSEN["cluster_scheduler_config"]["profiles"]]
    running = {"PercentageOfNodesToScore": 60, "podMaxBackoffSeconds": 8, "parallelism": 16, "profiles": profiles}
    running["clientConnection"] = {"Kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 50}
    found = {"file": SCHEDULER_FILE, "content": content, "newer": -4.0, "status": 200, "running": running}
    return SeenScheduler(**{**found, **more})


def volumes() -> dict[str, dict[str, SeenVolume]]:
    """Return the volumes of programs as the cell wants them."""
    read, write = SeenVolume(same=True, read_only=True, why=""), SeenVolume(same=True, read_only=False, why="")
    return {
        "kube-apiserver": {"/srv/machine-share": read},
        "kube-controller-manager": {"/var/log/kubernetes": write},
        "kube-scheduler": {"/etc/kubernetes/scheduler": read, "/srv/machine-hostname": read},
    }
