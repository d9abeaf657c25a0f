"""What a cluster of a bench runs, seen from outside, and how its caller changes his mind about it."""

from __future__ import annotations

from typing import Any

import yaml

from harness import paths
from harness.artifacts import refs
from harness.artifacts.recipe import silent
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.model import Cell
from harness.plan import make_cell
from harness.spec import load_spec
from harness.spec.variables import merged
from tests.embedded.playbooks.conftest import Bench, cell_of

KUBECTL = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def cell_with(version: str, topology: str) -> Cell:
    """Return the smoke cell with another topology and another Kubernetes version."""
    spec = load_spec(paths.project_dir() / "matrix")
    return make_cell(spec, {**cell_of(topology).values, "kubernetes": version})


def provide(bench: Bench, cell: Cell) -> None:
    """Have the mirror and the registry serve what a cell's version needs."""
    store, version = Store(), str(cell.vars["cluster_kubernetes_version"])
    store.ensure(refs.for_cell(store.catalogue, cell.vars), silent)
    Supply(version, refs.images(store.catalogue, version, cell.vars), store).publish(bench.mirror.registry)


def deploy(bench: Bench, cell: Cell) -> None:
    """Boot a cell's machines and have its cluster on them."""
    provide(bench, cell)
    bench.boot(cell)
    bench.play()


def given(bench: Bench) -> dict[str, Any]:
    """Return what the playbooks are given."""
    loaded: dict[str, Any] = yaml.safe_load((bench.directory / "extra-vars.yml").read_text(encoding="utf-8"))
    return loaded


def give(bench: Bench, **variables: Any) -> None:
    """Change what the playbooks are given from now on; mappings gain or change keys."""
    path = bench.directory / "extra-vars.yml"
    path.write_text(yaml.safe_dump(merged(given(bench), variables)), encoding="utf-8")


def versions_of(cell: Cell) -> dict[str, Any]:
    """Return the variables of a cell that say which version of Kubernetes, and of what comes with it, is wanted."""
    return {name: value for name, value in cell.vars.items() if name.endswith("_version")}


def nodes(bench: Bench) -> list[dict[str, Any]]:
    """Return the Nodes, by the kubeconfig that the playbooks left on the controller."""
    return [dict(node) for node in Cluster.from_kubeconfig(bench.kubeconfig).list(NODE).items]


def cordoned(bench: Bench) -> set[str]:
    """Return the names of nodes that take no pods."""
    return {str(node["metadata"]["name"]) for node in nodes(bench) if node["spec"].get("unschedulable")}


def kubelets(bench: Bench) -> set[str]:
    """Return the versions of the kubelets as they themselves tell the API."""
    return {str(node["status"]["nodeInfo"]["kubeletVersion"]) for node in nodes(bench)}


def control_plane_versions(bench: Bench, machine: int) -> dict[str, str]:
    """Return what the programs of a machine's control plane are, each by the file that its process runs."""
    found = {}
    for program in CONTROL_PLANE:
        done = bench.on(machine, f"sudo /proc/$(pidof {program})/exe --version")
        found[program] = done.stdout.split()[-1] if done.stdout.split() else done.stderr.strip()
    return found


def flags(bench: Bench, machine: int, program: str) -> list[str]:
    """Return the command line of a process that runs on a machine."""
    return bench.on(machine, f"sudo cat /proc/$(pidof {program})/cmdline").stdout.split("\0")


def began(bench: Bench, machine: int, *programs: str) -> dict[str, str]:
    """Return when each program's process began (its id, and ticks since the boot), to tell one that was restarted."""
    script = "; ".join(f"echo {name} $(pidof {name}) $(cut -d' ' -f22 /proc/$(pidof {name})/stat)" for name in programs)
    return {line.split()[0]: line for line in bench.on(machine, script).stdout.splitlines()}


def kubelet_setting(bench: Bench, node: str, name: str) -> Any:
    """Return a setting that a running kubelet says it has."""
    done = bench.on(0, f"{KUBECTL} get --raw /api/v1/nodes/{node}/proxy/configz")
    configuration = yaml.safe_load(done.stdout)["kubeletconfig"]
    return configuration.get(name)
