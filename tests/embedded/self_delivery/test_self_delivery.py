"""The operator delivers itself: this checkout is built upon its image, and what is deployed makes a cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from harness import proc
from harness.kube.objects import dig
from harness.kube.resources import JOB, POD
from harness.operator.decide.application import NAME_LABEL
from harness.operator.manifests import NAME as OPERATOR
from harness.paths import MATRIX, PROJECT, SETTINGS, packaged_dir
from harness.rundir import RunDir
from tests.embedded.conftest import running
from tests.embedded.deliveries.git_servers import GIT, Repository, run
from tests.embedded.deliveries_live.world import World

ROOT = packaged_dir()
SELF = "vmatrix"
BUILD_SECONDS, CELL_SECONDS = 600.0, 3600.0  # on a busy host
PRODUCT = Path("products", "operator.yml")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Return an infra cluster with pods and the operator that this checkout makes without a Dockerfile."""
    with TemporaryDirectory(prefix="self-") as folder, running("-self", pods=True) as infra:
        made = World(infra, Path(folder))
        made.open()
        try:
            yield made
        finally:
            made.close()


def manager() -> dict[str, object]:
    """Return the pod of a manager that waits for the Lease of the one that is there, and answers as it does."""
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    container = {
        "name": "app",
        "command": ["vmatrix"],
        "args": [
            "operator",
            "run",
            "--namespace=$(POD_NAMESPACE)",
            "--controllers=builds,rollouts",
            "--health-port=8080",
        ],
        "env": [
            {"name": "HOME", "value": "/tmp"},
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        ],
        "volumeMounts": [{"name": "temporary", "mountPath": "/tmp"}],
    }
    volumes = [{"name": "temporary", "emptyDir": {}}]
    return {"spec": {"serviceAccountName": OPERATOR, "containers": [container], "volumes": volumes}}


@pytest.fixture(scope="module")
def image(world: World) -> str:
    """Return the image that the operator has built of this checkout and deployed, by digest."""
    repository = Repository.create(world.servers, SELF)
    names = run(GIT, "ls-files", "-z", cwd=ROOT).split("\0")
    files = {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}
    revision = repository.commit(files)
    world.secret("self-git", world.servers.https_secret())
    source = {"git": world.servers.https(SELF), "revision": revision, "secretRef": {"name": "self-git"}}
    build = {"dockerfile": "deploy/operator/Dockerfile", "args": {"BASE": world.image}}
    probes = {"readiness": {"path": "/readyz", "port": 8080}}
    world.deliver(SELF, source, build, template=manager(), probes=probes, rolloutSeconds=300)
    world.wait(f"{SELF} to run {revision[:12]}", lambda: world.ready(SELF, revision), BUILD_SECONDS)
    made = str(world.seen(SELF).status.image)
    assert made == f"{world.registry}/{SELF}@{world.digest(SELF, revision[:12])}"
    assert world.running_image(SELF) == {made}
    return made


def project(folder: Path, image: str) -> None:
    """Write a project whose operator is that image; all else is as it ships."""
    text = (ROOT / MATRIX / PRODUCT).read_text(encoding="utf-8")
    body = yaml.safe_load(text.replace("{{ images.vmatrix }}", image))
    body["product"]["directory"] = str(ROOT / body["product"]["directory"])
    body["product"]["declared"]["images"] = []
    assert image in json.dumps(body), "the product's file does not name its image so any more"
    (folder / SETTINGS).touch()
    path = folder / MATRIX / PRODUCT
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(body), encoding="utf-8")


def test_the_operator_that_it_has_delivered_makes_a_cluster(world: World, image: str, tmp_path: Path) -> None:
    project(tmp_path, image)
    vmatrix = Path(sys.executable).with_name("vmatrix")
    words: list[str | Path] = [vmatrix, "run", "--tier", "operator", "scenario=fresh"]
    words += ["--infra-name", world.infra.layout.name, "--runs", str(tmp_path / "runs")]
    words += ["--timeout-scale", os.environ.get("VMATRIX_TIMEOUT_SCALE", "1")]
    done = proc.run(words, timeout=CELL_SECONDS, check=False, cwd=tmp_path, env={PROJECT: str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    (run_dir,) = RunDir.all_in(tmp_path / "runs")
    (cell,) = run_dir.cells()
    made = list(yaml.safe_load_all(run_dir.attempt(cell).objects.read_text(encoding="utf-8")))
    pods = [one for one in made if one and one.get("kind") == POD.kind]
    managers = [pod for pod in pods if dig(pod, "metadata", "labels", NAME_LABEL) == OPERATOR]
    executors = [
        pod for pod in pods if any(one["kind"] == JOB.kind for one in pod["metadata"].get("ownerReferences") or ())
    ]
    for those in (managers, executors):
        assert {part["image"] for pod in those for part in pod["spec"]["containers"]} == {image}
