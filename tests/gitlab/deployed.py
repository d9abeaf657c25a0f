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
from harness.artifacts import refs
from harness.artifacts.own import push
from harness.artifacts.recipe import Ref, silent
from harness.artifacts.store import Store
from harness.infra.embedded.provider import EmbeddedProvider
from harness.infra.host.guests import guest_vars
from harness.kube.client import Cluster
from harness.kube.resources import DEPLOYMENT, POD, SECRET
from harness.model import Cell
from harness.paths import project_dir
from harness.providers.embedded import embedded_provider
from harness.providers.on_host import KUBERNETES
from harness.until import Deadline, NotYet, until
from tests.gitlab import runner_images
from tests.gitlab.server.model import KnownRunner, Variable

NAMESPACE_NAME = "vmatrix-cells"
RUNNER_NAME = "vmatrix-runner"
DEPLOY = project_dir() / "deploy"
KUBECTL_SECONDS = 60.0
# Of a job's pod: the machine of the pods is small, and runs two at a time.
MEMORY = {
    '\n    memory_request = "768Mi"': '\n    memory_request = "320Mi"',
    '\n    memory_limit = "2Gi"': '\n    memory_limit = "640Mi"',
}
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
def place(folder: Path, cells: list[Cell]) -> Iterator[Place]:
    """Bring up an infra cluster with pods, what cells pull from its mirror, and the images; take it down."""
    store = Store()
    infra = embedded_provider(f"runner-{os.getpid()}", store, progress=silent, images=pulled(store, cells), pods=True)
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


def pulled(store: Store, cells: list[Cell]) -> tuple[Ref, ...]:
    """Return the images that guests of cells pull."""
    found = (
        ref
        for cell in cells
        for phase in cell.phases
        for ref in refs.images(store.catalogue, str(phase.vars["cluster_kubernetes_version"]), phase.vars)
    )
    return tuple(dict.fromkeys(found))


def variables(there: Place) -> list[Variable]:
    """Return the variables of a group whose jobs' cells are machines of this infra cluster."""
    mirror = there.infra.mirror()
    given = {
        "VMATRIX_MIRROR_HTTP": mirror.http,
        "VMATRIX_REGISTRY": mirror.registry,
        "VMATRIX_ACCESS": "portforward",  # no network leads from pods to machines here
        "VMATRIX_TIMEOUT_SCALE": "3",
    }
    guests = Variable("VMATRIX_GUEST_VARS", yaml.safe_dump(dict(guest_vars())), file=True)
    return [guests, *(Variable(name, value) for name, value in given.items())]


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
    settings = folder / "base" / "config.template.toml"
    text = settings.read_text(encoding="utf-8")
    for usual, little in MEMORY.items():
        assert usual in text
        text = text.replace(usual, little)
    settings.write_text(text, encoding="utf-8")
    name, _, tag = there.runner_image.rpartition(":")
    generated = {"behavior": "merge", "namespace": NAMESPACE_NAME}
    content = {
        "resources": ["base"],
        "configMapGenerator": [{"name": f"{RUNNER_NAME}-gitlab", "literals": [f"url={url}"], **generated}],
        "images": [{"name": "registry.example.com/gitlab/gitlab-runner", "newName": name, "newTag": tag}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder
