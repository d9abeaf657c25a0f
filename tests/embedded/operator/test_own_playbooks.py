"""Clusters of another team's playbooks: their product file comes from a ConfigMap, and executors are given it."""

from __future__ import annotations

import pytest
import yaml

from harness.kube.client import Json
from harness.kube.resources import CONFIG_MAP, JOB
from harness.operator.context import OperatorContext
from harness.operator.controllers import cluster_view
from harness.until import NotYet
from tests.embedded.operator.world import NAME, World
from tests.unit.operator.decide.products import GOOD

THEIRS = {"product": {"configMap": "theirs"}}


@pytest.fixture(autouse=True)
def _prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have product files read often."""
    monkeypatch.setattr(cluster_view, "AGAIN_SECONDS", 0.2)


def product(world: World, text: str) -> None:
    """Give the ConfigMap a product file."""
    body = CONFIG_MAP.manifest("theirs", world.namespace, labels={}, data={"product.yml": text})
    if world.api.get(CONFIG_MAP, "theirs", world.namespace) is None:
        world.api.create(CONFIG_MAP, body)
    else:
        world.api.merge(CONFIG_MAP, "theirs", {"data": body["data"]}, world.namespace)


def inputs(world: World, job: str) -> Json:
    """Return the files of an operation."""
    world.kubelet.job(job)
    found = world.api.get(CONFIG_MAP, job, world.namespace)
    assert found is not None
    data: Json = found["data"]
    return data


def test_an_operation_is_the_phase_of_their_product(world: World, operator: OperatorContext) -> None:
    product(world, GOOD)
    world.declare(playbooks=THEIRS)
    files = inputs(world, f"{NAME}-1-deploy")
    assert files["product.yml"] == GOOD
    assert yaml.safe_load(files["operation.json"])["entry"] == "site.yml"
    groups = yaml.safe_load(files["hosts.yml"])["all"]["children"]
    assert groups["kube_control_plane"] == groups["control_plane"] == {"hosts": {"m-0": {}}}


def test_nothing_begins_before_the_file_is_there_and_has_no_mistake(world: World, operator: OperatorContext) -> None:
    world.declare(playbooks=THEIRS)
    said = world.condition("Accepted", "False")["message"]
    assert said == (
        "spec.playbooks.product.configMap: there is no ConfigMap theirs: create it, with the key product.yml"
    )
    product(world, GOOD.replace("phases:", "phase:"))
    wrong = "ConfigMap theirs, product.yml, line"

    def told() -> bool | NotYet:
        message = world.condition("Accepted", "False")["message"]
        good = wrong in message and "product.phase: unknown key; did you mean phases?" in message
        return good or NotYet(message)

    world.wait(told, "the mistake")
    assert world.api.list(JOB, world.namespace).items == []
    product(world, GOOD)
    world.condition("Accepted", "True")
    world.kubelet.job(f"{NAME}-1-deploy")


def test_an_operation_that_they_do_not_have_is_refused_in_words(world: World, operator: OperatorContext) -> None:
    product(world, GOOD.replace("deploy: {", "install: {"))
    world.declare(playbooks=THEIRS)
    said = world.condition("Degraded", "True", "NoSuchPhase")["message"]
    assert "their playbooks has no phase deploy, which deploy needs" in said
    assert world.api.list(JOB, world.namespace).items == []
    product(world, GOOD)
    world.kubelet.job(f"{NAME}-1-deploy")
