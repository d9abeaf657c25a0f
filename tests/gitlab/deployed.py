"""GitLab Runner in an embedded infra cluster that runs pods, deployed as deploy/runner says, and jobs' pods there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import proc
from harness.artifacts import refs
from harness.artifacts.disk import catalogue
from harness.artifacts.disk.cache import ImageCache
from harness.artifacts.own import push
from harness.artifacts.recipe import Ref, silent
from harness.artifacts.store import Store
from harness.infra.guest_facts import guest_vars
from harness.kube.client import Cluster
from harness.kube.resources import DEPLOYMENT, POD, SECRET
from harness.model import Cell
from harness.paths import MATRIX, packaged_dir, project_dir
from harness.providers.embedded import EmbeddedProvider, embedded_provider
from harness.providers.on_host import KUBERNETES
from harness.spec.project import TEMPLATES
from harness.until import Deadline, NotYet, until
from tests.embedded.rights.audit import POLICY, Log
from tests.embedded.rights.identity import Issuer, issuing
from tests.gitlab import runner_images
from tests.gitlab.server.model import KnownRunner, Variable

NAMESPACE_NAME = "vmatrix-cells"
RUNNER_NAME = "vmatrix-runner"
DEPLOY = project_dir() / "deploy"
KUBECTL_SECONDS = 60.0
PODS_MIB = 3072  # of the machine that runs pods: the runner's, and those of four jobs with a cell
# Of a job's pod, whose machine has two processors, and which is to go at once when its job is over.
LITTLE = {
    "cleanup_grace_period_seconds = 30": "cleanup_grace_period_seconds = 2",
    '\n    cpu_request = "500m"': '\n    cpu_request = "100m"',
    '\n    memory_request = "768Mi"': '\n    memory_request = "320Mi"',
    '\n    memory_limit = "2Gi"': '\n    memory_limit = "640Mi"',
}
AUTHENTICATION = DEPLOY / "authentication" / "authentication-configuration.yml"
# Shells do not hear the kubelet's SIGTERM, and the kubelet does not shorten a time that has begun to run.
EVICTED_LEFT = "its pod"
READY_SECONDS = 180.0  # until the runner's image is pulled and it has registered


@dataclass(frozen=True)
class Place:
    """An infra cluster with pods, and the images in its registry: the jobs' own and the runner's.

    log: what everybody asked of its API.  issuer: whose tokens its API takes, as deploy/authentication says.
    """

    infra: EmbeddedProvider
    log: Log
    issuer: Issuer
    cluster: Cluster
    image: str
    runner_image: str
    folder: Path

    def kubectl(self, *words: str | Path) -> str:
        """Run kubectl as the administrator and return what it prints."""
        kubectl = Store().obtain("kubectl", KUBERNETES).file("kubectl")
        command = [str(kubectl), "--kubeconfig", str(self.infra.kubeconfig()), *map(str, words)]
        return proc.run(command, timeout=KUBECTL_SECONDS).stdout

    def evict(self, pod: str) -> None:
        """Ask the API to evict a pod, as draining its node does."""
        meta = {"name": pod, "namespace": NAMESPACE_NAME}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        self.cluster.request("POST", POD.path(NAMESPACE_NAME, pod, "eviction"), body=body)

    def forget_evicted(self, pod: str) -> None:
        """Delete a pod that was evicted, when its job is over: it would stay until its grace period ends."""
        found = self.cluster.get(POD, pod, NAMESPACE_NAME)
        assert found is None or found["metadata"].get("deletionTimestamp"), found
        if found is not None:
            self.cluster.delete(POD, pod, NAMESPACE_NAME, grace=0)

    @property
    def job_pods(self) -> list[str]:
        """Return the names of the pods of jobs that are there."""
        names = (pod["metadata"]["name"] for pod in self.cluster.list(POD, NAMESPACE_NAME).items)
        return sorted(name for name in names if name.startswith("runner-"))


@contextmanager
def place(folder: Path, cells: list[Cell]) -> Iterator[Place]:
    """Bring up an infra cluster with pods, what cells pull from its mirror, and the images; take it down."""
    store, cleanup = Store(), ExitStack()
    usual = embedded_provider(f"runner-{os.getpid()}", store, progress=silent, images=pulled(store, cells), pods=True)
    with cleanup:
        issuer = cleanup.enter_context(issuing(folder))
        log = Log(folder / "audit.log")
        infra = usual.altered(api_flags=flags(folder, issuer, log), pods_mib=PODS_MIB)
        cleanup.callback(infra.down)
        infra.up()
        own = push.obtain_image(store)
        push.publish(own, store)
        registry = infra.mirror().registry
        image = f"{registry}/{push.REPOSITORY}:{own.ref.version}"
        runner_image = runner_images.publish(registry, store)
        yield Place(infra, log, issuer, Cluster.from_kubeconfig(infra.kubeconfig()), image, runner_image, folder)


def flags(folder: Path, issuer: Issuer, log: Log) -> dict[str, object]:
    """Return flags of an API server that writes down what it is asked, and takes an issuer's tokens."""
    policy, login = folder / "audit-policy.yml", folder / "authentication.yml"
    policy.write_text(json.dumps(POLICY), encoding="utf-8")
    log.path.touch()
    content: dict[str, Any] = yaml.safe_load(AUTHENTICATION.read_text(encoding="utf-8"))
    content["jwt"][0]["issuer"] |= {"url": issuer.url, "certificateAuthority": issuer.authority}
    login.write_text(yaml.safe_dump(content), encoding="utf-8")
    written = {"audit-policy-file": policy, "audit-log-path": log.path, "audit-log-mode": "blocking-strict"}
    return {**written, "authentication-config": login}


def pulled(store: Store, cells: list[Cell]) -> tuple[Ref, ...]:
    """Return the images that guests of cells pull."""
    found = (
        ref
        for cell in cells
        for phase in cell.phases
        for ref in refs.images(store.catalogue, str(phase.vars["cluster_kubernetes_version"]), phase.vars)
    )
    return tuple(dict.fromkeys(found))


def have_disks(systems: Iterable[str]) -> None:
    """Have the disk images of operating systems at the mirror; one that is missing is built, which takes minutes."""
    known = catalogue.load(packaged_dir() / MATRIX / "images.yml")
    cache = ImageCache(recipes=packaged_dir() / TEMPLATES / "images")
    for system in systems:
        cache.ensure(known.find(system), lambda _: None)


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


def deploy(there: Place, url: str, known: KnownRunner, changes: Mapping[str, str] | None = None) -> None:
    """Apply deploy/, with what its README leaves to an overlay, and wait for the runner.

    Args:
        changes: what the settings of jobs' pods have in place of a text of theirs.
    """
    there.kubectl("apply", "-k", DEPLOY / "rbac" / "given-namespace")
    tokens = {"runner-token": known.token, "runner-registration-token": ""}
    there.cluster.apply(SECRET, SECRET.manifest(RUNNER_NAME, NAMESPACE_NAME, labels={}, stringData=tokens))
    there.kubectl("apply", "-k", overlay(there, url, {**LITTLE, **(changes or {})}))

    def ready() -> bool | NotYet:
        found = there.cluster.get(DEPLOYMENT, RUNNER_NAME, NAMESPACE_NAME) or {}
        status, generation = found.get("status", {}), found.get("metadata", {}).get("generation")
        new = status.get("observedGeneration") == generation and status.get("updatedReplicas") == 1
        return (new and status.get("readyReplicas") == 1) or NotYet(str(status))

    until(ready, deadline=Deadline.after(READY_SECONDS), what="the runner to be ready", interval=0.5)


def overlay(there: Place, url: str, changes: Mapping[str, str]) -> Path:
    """Write an overlay of deploy/runner with GitLab's address and images, as its README tells users to."""
    folder = there.folder / "overlay"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DEPLOY / "runner", folder / "base")
    settings = folder / "base" / "config.template.toml"
    text = settings.read_text(encoding="utf-8")
    for usual, other in changes.items():
        assert usual in text
        text = text.replace(usual, other)
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
