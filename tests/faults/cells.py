"""The cells that faults are injected into: made for it and torn down, or one that is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import providers
from harness.cell.life import Life
from harness.cell.network import mirror_of
from harness.cell.provision import Attempt
from harness.cell.steps import Steps
from harness.errors import BadInput
from harness.events import Recorder
from harness.model import Cell, Environment, GuestCluster, Machine, Mirror
from harness.paths import project_dir
from harness.plan.cells import make_cell
from harness.session.cells import inspection_options
from harness.session.selection import find_run
from harness.spec import Spec, load_spec
from harness.spec.models import Timeouts
from harness.spec.models.leaves import ClusterLeaves
from harness.spec.project import Project
from harness.spec.settings import load_settings
from harness.validate.inspection import Inspection
from tests.faults.fault import Need

RUNS = Path("runs")
COMMON = {
    "kubernetes": "1.36.3",
    "runtime": "containerd-2.4",
    "network": "flannel",
    "scenario": "fresh",
    "source": "mirror",
    "product": "playbooks",
    "profile": "plain",
    "kubeadm": "plain",
    "ip": "ipv4",
}
# Every fault can be tried in one of these.
LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "single": {"os": "debian-13", "proxy": "nftables", "topology": "cp1-w1", "addons": "all"},
    "three": {"os": "debian-13", "proxy": "iptables", "topology": "cp3-w2", "addons": "core"},
    "etcd": {"os": "debian-12", "proxy": "iptables", "topology": "cp2-etcd3-w1", "addons": "core"},
    "hardened": {"os": "debian-13", "proxy": "nftables", "topology": "cp1-w1", "addons": "core", "profile": "hardened"},
    "customised": {
        "os": "debian-13",
        "proxy": "nftables",
        "topology": "cp1-w1",
        "addons": "core",
        "kubeadm": "customised",
    },
    "external-ca": {
        "os": "debian-13",
        "proxy": "nftables",
        "topology": "cp1-w1",
        "addons": "core",
        "kubeadm": "external-ca",
    },
    "dual": {"os": "debian-13", "proxy": "nftables", "topology": "cp1-w1", "addons": "core", "ip": "dual"},
    "balanced": {"os": "debian-13", "proxy": "nftables", "topology": "cp1-w1", "addons": "load-balancer"},
    "crio": {
        "os": "debian-13",
        "proxy": "nftables",
        "topology": "cp1-w1",
        "addons": "core",
        "kubernetes": "1.34.4",
        "runtime": "crio-1.34",
    },
    "replaced": {
        "os": "debian-13",
        "proxy": "nftables",
        "topology": "cp1-w2",
        "addons": "core",
        "kubernetes": "1.35.4",
        "scenario": "upgrade-runtime",
    },
    "policed": {
        "os": "debian-13",
        "proxy": "nftables",
        "topology": "cp1-w1",
        "addons": "network-policies",
        "ip": "dual",
    },
    "published": {"os": "debian-13", "proxy": "nftables", "topology": "cp1-w1", "addons": "ingress"},
    # What the tier smoke deploys and can keep. Whatever fits into it fits into `single`, too.
    "smoke": {"os": "debian-13", "proxy": "nftables", "topology": "cp1-w1", "addons": "core"},
}


def offers(layout: str) -> frozenset[Need]:
    """Return what a layout has of what faults need."""
    values = LAYOUTS[layout]
    found = {Need(values["proxy"])}
    found |= {Need.ADDONS} if values["addons"] == "all" else set()
    found |= {Need.LOAD_BALANCER} if values["addons"] == "load-balancer" else set()
    found |= {Need.POLICIES} if values["addons"] == "network-policies" else set()
    found |= {Need.INGRESS} if values["addons"] == "ingress" else set()
    found |= {Need.HARDENED} if values.get("profile") == "hardened" else set()
    found |= {Need.CUSTOMISED} if values.get("kubeadm") == "customised" else set()
    found |= {Need.EXTERNAL_CA} if values.get("kubeadm") == "external-ca" else set()
    found |= {Need.DUAL} if values.get("ip") == "dual" else set()
    found |= {Need.REPLACED} if values.get("scenario") == "upgrade-runtime" else set()
    found |= {Need.CRIO} if values.get("runtime", "").startswith("crio") else set()
    found |= {Need.THREE} if values["topology"].startswith("cp3") else set()
    return frozenset(found | {Need.EXTERNAL if "etcd" in values["topology"] else Need.STACKED})


@dataclass(frozen=True)
class Patient:
    """A cell with a cluster to break."""

    guest: GuestCluster
    leaves: ClusterLeaves
    mirror: Mirror
    timeouts: Timeouts

    def inspection(self, timeouts: Timeouts | None = None) -> Inspection:
        """Return a fresh look at the guest."""
        options = inspection_options(self.guest.environment)
        return Inspection(self.guest, self.leaves, ssh_options=options, timeouts=timeouts or self.timeouts)


def cell_of(spec: Spec, layout: str) -> Cell:
    """Return the cell of a layout."""
    return make_cell(spec, {**COMMON, **LAYOUTS[layout]})


@contextmanager
def made(layout: str, infra: str, run_id: str, directory: Path) -> Iterator[Patient]:
    """Make a cell, and its infra cluster if it is not up; go through the phases, and tear the cell down afterwards."""
    settings = load_settings(Path.cwd(), options={"provider": "embedded", "infra_name": infra}).settings
    spec = load_spec(project_dir() / "matrix")
    cell = cell_of(spec, layout)
    site = providers.open_site(Project(project_dir(), spec, settings), (cell,), progress=print)
    directory.mkdir(parents=True, exist_ok=True)
    life = Life(site, Attempt(run_id, cell, 1, directory / cell.id), Steps(Recorder(directory), cell.id, 1))
    try:
        life.provision()
        guests = [life.apply(index) for index in range(len(cell.phases))]
        mirror = mirror_of(site.mirror, cell.vars)
        yield Patient(guests[-1], site.product_of(cell).cluster, mirror, site.timeouts)
    finally:
        life.teardown()


def kept(layout: str, run: str, infra: str) -> Patient:
    """Return the cell of a layout that a run has kept.

    Args:
        run: the id of a run in runs/, or `last`.  infra: the instance that its machines are on.

    Raises:
        BadInput: there is no such run, or it has no machines of such a cell.
    """
    spec = load_spec(project_dir() / "matrix")
    cell = cell_of(spec, layout)
    directory = RUNS / find_run(RUNS, run).run / cell.id
    if not (directory / "inventory").is_dir():
        raise BadInput(
            f"{directory.parent} has no cell of the layout {layout}", hint=f"vmatrix run {cell.id} --keep always"
        )
    hosts = _yaml(directory / "inventory/hosts.yml")["all"]["hosts"]
    variables = _yaml(directory / "inventory/extra-vars.yml")
    machines = tuple(
        Machine(planned, hosts[planned.name]["ansible_host"], 22, hosts[planned.name]["ansible_user"])
        for planned in cell.machines
    )
    environment = Environment(
        directory.parent.name, cell, 1, cell.id, machines, directory, directory / "id_ed25519", ("--infra-name", infra)
    )
    guest = GuestCluster(environment, directory / "kubeconfig", variables)
    mirror = mirror_of(Mirror(variables["cluster_mirror_url"], variables["cluster_image_registry"]), variables)
    return Patient(guest, spec.product_of(cell.values).cluster, mirror, spec.timeouts)


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
