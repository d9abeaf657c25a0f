"""deploy/runner and deploy/quota: what the chart is given, and whether the plan's largest cells fit into the quota."""

from __future__ import annotations

import math
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from harness.cell.manifests import IMPORTER_MIB
from harness.cell.place import POD_NAME, POD_NAMESPACE, POD_UID
from harness.kube.objects import quantity
from harness.model import Cell
from harness.paths import project_dir
from harness.schedule.placement import demand_of
from harness.session.selection import choose
from harness.spec import load_spec
from harness.spec.settings import Settings

DEPLOY = project_dir() / "deploy"
CELLS_AT_A_TIME = 4
MIB, GIB = 2**20, 2**30
JOB_MIB = 768 + 128  # a job's pod lies in the same namespace: build and helper
SLACK = 1.5  # how much more the quota may be than what it is for


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "runner" / "values.yml").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def runner(values: dict[str, Any]) -> dict[str, Any]:
    (found,) = tomllib.loads(values["runners"]["config"])["runners"]
    return dict(found)


def test_jobs_have_the_service_account_that_the_role_is_bound_to(runner: dict[str, Any]) -> None:
    text = (DEPLOY / "rbac" / "given-namespace" / "role.yml").read_text(encoding="utf-8")
    (binding,) = (o for o in yaml.safe_load_all(text) if o["kind"] == "RoleBinding")
    kubernetes = runner["kubernetes"]
    assert binding["subjects"][0]["name"] == kubernetes["service_account"]
    assert kubernetes["service_account_overwrite_allowed"] == kubernetes["namespace_overwrite_allowed"] == ""
    assert kubernetes["bearer_token_overwrite_allowed"] is False
    assert kubernetes["privileged"] is False


def test_a_job_learns_which_pod_it_is(runner: dict[str, Any]) -> None:
    (patch,) = runner["kubernetes"]["pod_spec"]
    (build,) = yaml.safe_load(patch["patch"])["containers"]
    given = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in build["env"]}
    assert build["name"] == "build"
    assert given == {POD_NAME: "metadata.name", POD_UID: "metadata.uid", POD_NAMESPACE: "metadata.namespace"}
    assert "FF_USE_ADVANCED_POD_SPEC_CONFIGURATION=true" in runner["environment"]
    assert "FF_USE_POD_ACTIVE_DEADLINE_SECONDS=true" in runner["environment"]


def test_an_evicted_jobs_script_is_told_before_its_pod_gets_a_signal_that_no_shell_hears(
    runner: dict[str, Any],
) -> None:
    (patch,) = runner["kubernetes"]["pod_spec"]
    (build,) = yaml.safe_load(patch["patch"])["containers"]
    shell, option, script = build["lifecycle"]["preStop"]["exec"]["command"]
    assert (shell, option) == ("/bin/sh", "-c")
    assert "*/step_script) at_work=" in script, "of all of a job's scripts: after_script goes on"
    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=10)


def test_a_cancelled_job_has_time_to_take_its_cell_away(runner: dict[str, Any], values: dict[str, Any]) -> None:
    timeouts = load_spec(project_dir() / "matrix").timeouts
    grace = runner["kubernetes"]["pod_termination_grace_period_seconds"]
    assert timeouts.teardown + timeouts.collect <= grace <= values["terminationGracePeriodSeconds"]


RUNNER = DEPLOY / "runner"
RELEASE = ("{{ .Release.Namespace }}", "vmatrix-cells")
# What no job needs of the runner: it makes no services, changes neither pods nor what it did not make, and reads logs
# and follows events only with feature flags that are not set.
NEVER = {
    *(("configmaps", ""), ("services", ""), ("pods", "update"), ("pods", "patch"), ("secrets", "list")),
    *(("pods/log", ""), ("events", "watch")),
}


@pytest.fixture(scope="module")
def plain() -> dict[str, dict[str, Any]]:
    """Return the objects of the runner without Helm, by kind."""
    texts = [(RUNNER / name).read_text(encoding="utf-8") for name in ("role.yml", "deployment.yml")]
    found = {one["kind"]: one for text in texts for one in yaml.safe_load_all(text)}
    return {**found, "Kustomization": yaml.safe_load((RUNNER / "kustomization.yaml").read_text(encoding="utf-8"))}


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((RUNNER / name).read_text(encoding="utf-8"))


def test_job_pods_are_the_same_with_and_without_helm(values: dict[str, Any]) -> None:
    with_helm = tomllib.loads(values["runners"]["config"].replace(*RELEASE))
    assert read_toml("config.template.toml") == with_helm


def test_the_runner_is_the_same_with_and_without_helm(values: dict[str, Any], plain: dict[str, dict[str, Any]]) -> None:
    grace = values["terminationGracePeriodSeconds"]
    wanted = {"concurrent": values["concurrent"], "check_interval": values["checkInterval"], "shutdown_timeout": grace}
    assert read_toml("config.toml") == wanted
    pod = plain["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == grace
    assert pod["serviceAccountName"] == values["serviceAccount"]["name"] == plain["ServiceAccount"]["metadata"]["name"]
    assert plain["Role"]["rules"] == values["rbac"]["rules"]
    (container,) = pod["containers"]
    assert container["resources"] == values["resources"]
    (url,) = (e for e in container["env"] if e["name"] == "CI_SERVER_URL")
    literals = {g["name"]: g.get("literals") for g in plain["Kustomization"]["configMapGenerator"]}
    assert literals[url["valueFrom"]["configMapKeyRef"]["name"]] == [f"url={values['gitlabUrl']}"]
    (token,) = (e for e in container["env"] if e["name"] == "CI_SERVER_TOKEN")
    assert token["valueFrom"]["secretKeyRef"] == {"name": values["runners"]["secret"], "key": "runner-token"}


def test_the_runner_has_no_right_that_no_job_needs(plain: dict[str, dict[str, Any]]) -> None:
    rules = plain["Role"]["rules"]
    given = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in ("", *rule["verbs"])}
    assert ("pods", "create") in given
    assert given & NEVER == set()
    assert not any(rule["apiGroups"] != [""] for rule in rules), "machines are the jobs', not the runner's"


@pytest.fixture(scope="module")
def largest() -> Cell:
    spec = load_spec(project_dir() / "matrix")
    cells = [s.cell for s in choose(spec, Settings(provider="kubeconfig"))]
    return max(cells, key=lambda cell: demand_of(cell).memory_mib)


def test_the_quota_is_for_four_of_the_largest_cells_and_the_golden_images(largest: Cell) -> None:
    hard = yaml.safe_load((DEPLOY / "quota" / "quota.yml").read_text(encoding="utf-8"))["spec"]["hard"]
    demand, machines = demand_of(largest), len(largest.machines)
    disks = sum(m.disk_gib for m in largest.machines)
    images = len({m.image for m in largest.machines}) * 4
    needed = {
        "pods": CELLS_AT_A_TIME * (2 * machines + 1) + images,
        "requests.cpu": CELLS_AT_A_TIME * (demand.cpus + 0.6),
        "requests.memory": (CELLS_AT_A_TIME * (demand.memory_mib + JOB_MIB) + IMPORTER_MIB) * MIB,
        "persistentvolumeclaims": CELLS_AT_A_TIME * machines + 2 * images,
        "requests.storage": math.ceil((CELLS_AT_A_TIME * disks + 2 * images * 12) / (1 - 0.06)) * GIB,
        "count/virtualmachines.kubevirt.io": CELLS_AT_A_TIME * machines,
    }
    given = {name: float(quantity(str(amount))) for name, amount in hard.items()}
    assert given.keys() == needed.keys()
    wrong = {name: (given[name], least) for name, least in needed.items() if not least <= given[name] <= SLACK * least}
    assert wrong == {}, f"{largest.id} with {machines} machines and {demand}: (given, needed)"
