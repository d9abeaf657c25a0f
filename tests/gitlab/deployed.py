"""GitLab Runner in an embedded infra cluster that runs pods, deployed as deploy/runner says, and jobs' pods there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness import proc
from harness.artifacts.own import push
from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.infra.embedded.provider import EmbeddedProvider
from harness.kube.client import Cluster
from harness.kube.resources import DEPLOYMENT, POD, SECRET
from harness.paths import project_dir
from harness.providers.embedded import embedded_provider
from harness.providers.on_host import KUBERNETES
from harness.until import Deadline, NotYet, until
from tests.gitlab import runner_images
from tests.gitlab.server.model import KnownRunner

NAMESPACE_NAME = "vmatrix-cells"
RUNNER_NAME = "vmatrix-runner"
DEPLOY = project_dir() / "deploy"
KUBECTL_SECONDS = 60.0
UP_SECONDS = 600.0  # also on a host that is busy with other tests
READY_SECONDS = 180.0  # until the runner's image is pulled and it has registered


@dataclass(frozen=True)
class Place:
    """An infra cluster with pods, and the images in its registry: the jobs' own and the runner's."""

    infra: EmbeddedProvider
    cluster: Cluster
    image: str
    runner_image: str
    folder: Path

    def kubectl(self, *words: str | Path) -> str:
        """Run kubectl as the administrator and return what it prints."""
        kubectl = Store().obtain("kubectl", KUBERNETES).file("kubectl")
        command = [str(kubectl), "--kubeconfig", str(self.infra.kubeconfig()), *map(str, words)]
        return proc.run(command, timeout=KUBECTL_SECONDS).stdout

    @property
    def job_pods(self) -> list[str]:
        """Return the names of the pods of jobs that are there."""
        names = (pod["metadata"]["name"] for pod in self.cluster.list(POD, NAMESPACE_NAME).items)
        return sorted(name for name in names if name.startswith("runner-"))


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    """Bring up an infra cluster with pods, and the images of the runner and of its jobs; take it down."""
    store = Store()
    infra = embedded_provider(f"runner-{os.getpid()}", store, progress=silent, pods=True)
    try:
        infra.up()
        own = push.made(store)
        push.publish(own, store)
        registry = infra.mirror().registry
        image = f"{registry}/{push.REPOSITORY}:{own.ref.version}"
        runner_image = runner_images.publish(registry, store)
        yield Place(infra, Cluster.from_kubeconfig(infra.kubeconfig()), image, runner_image, folder)
    finally:
        infra.down()


def deploy(there: Place, url: str, known: KnownRunner) -> None:
    """Apply deploy/, with what its README leaves to an overlay, and wait for the runner."""
    there.kubectl("apply", "-k", DEPLOY / "rbac" / "given-namespace")
    tokens = {"runner-token": known.token, "runner-registration-token": ""}
    there.cluster.apply(SECRET, SECRET.manifest(RUNNER_NAME, NAMESPACE_NAME, labels={}, stringData=tokens))
    there.kubectl("apply", "-k", overlay(there, url))

    def ready() -> bool | NotYet:
        found = there.cluster.get(DEPLOYMENT, RUNNER_NAME, NAMESPACE_NAME) or {}
        status = found.get("status", {})
        return status.get("readyReplicas") == 1 or NotYet(str(status))

    until(ready, deadline=Deadline.after(READY_SECONDS), what="the runner to be ready", interval=0.5)


def overlay(there: Place, url: str) -> Path:
    """Write an overlay of deploy/runner with GitLab's address and images, as its README tells users to."""
    folder = there.folder / "overlay"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DEPLOY / "runner", folder / "base")
    name, _, tag = there.runner_image.rpartition(":")
    generated = {"behavior": "merge", "namespace": NAMESPACE_NAME}
    content = {
        "resources": ["base"],
        "configMapGenerator": [{"name": f"{RUNNER_NAME}-gitlab", "literals": [f"url={url}"], **generated}],
        "images": [{"name": "registry.example.com/gitlab/gitlab-runner", "newName": name, "newTag": tag}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder
