"""Checks of a cluster that vmatrix did not make: from a kubeconfig, an inventory and a file of facts to a guest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import BadInput, HarnessBug
from harness.events import Recorder
from harness.kube.api import Patience
from harness.kube.client import Cluster
from harness.machines.given_inventory import GivenInventory, given_inventory
from harness.machines.reach import ssh
from harness.machines.reach.ssh import control_directory, unattended_options
from harness.model import Cell, Environment, GuestCluster, Mirror, Phase
from harness.paths import MATRIX, settings_dir
from harness.rundir import RunDir
from harness.session.plan import RunPlan, random_id
from harness.spec.base import KUBERNETES
from harness.spec.lines import Document
from harness.spec.loader import load_file, load_spec, refuse
from harness.spec.models import Product, ProductPhase
from harness.spec.models.facts import Facts, FactsFile
from harness.spec.models.leaves import LeftOutCheck
from harness.spec.networks import IPV6_PODS
from harness.spec.project import Project, anywhere
from harness.spec.settings import Settings, load_settings
from harness.spec.shape import shown, unknown
from harness.spec.suites import CONFORMANCE, suites_of
from harness.spec.usual_names import GROUPS
from harness.validate.conformance.curated import curated_path, load_curated
from harness.validate.expected import minor_of, plugins

DEFAULT_SUITES = ("nodes", "cluster", "network")
POLICIES = "policies"
# Without what the network plugin leaves behind, nobody knows which MTU its pods have.
MTU = LeftOutCheck(
    check="network: test_packets_of_exactly_the_mtu_arrive_in_one_piece",
    reason="the facts do not say cluster.network_plugins",
)
# Checks that place pods: globs.
PROBING = ("network: *", "policies: *", "cluster: test_a_volume_keeps_what_a_pod_wrote_*")
# Fact -> globs of checks that are about nothing else; what is a part of a check, the check itself leaves out.
NEEDED = {
    "kubernetes": (
        "cluster: test_api_server_has_the_expected_version",
        "cluster: test_nodes_have_the_expected_versions",
        "cluster: test_components_run_the_expected_versions",
        "nodes: test_installed_programs_have_the_expected_versions",
    ),
    "kube_proxy_mode": (
        "nodes: test_kube_proxy_runs_in_the_expected_mode",
        "nodes: test_kube_proxy_has_the_settings_of_the_cell",
        "nodes: test_kube_proxy_has_rules_for_every_service",
    ),
    "network_plugin": ("nodes: test_the_network_plugins_unit_runs_and_is_enabled",),
    "kubelet_config": ("cluster: test_running_kubelets_are_configured_as_the_cell_asks",),
    "service_cidr": ("cluster: test_running_kubelets_are_configured_as_the_cell_asks",),
    "image_registry": ("cluster: test_images_come_from_the_mirror",),
    "pod_cidr": ("policies: test_*",),
    "test_registry": (
        *PROBING,
        "conformance: *",
        "nodes: test_images_on_machines_are_those_of_the_mirror",
    ),
}


def without(facts: Facts, minor: str) -> tuple[LeftOutCheck, ...]:
    """Return the checks that cannot judge without what is not said, or without a list of specs for the minor."""
    unsaid = tuple(
        LeftOutCheck(check=check, reason=f"the facts do not say {name}")
        for name in facts.unsaid()
        for check in NEEDED.get(name, ())
    )
    mtu = () if facts.cluster.network_plugins is not None else (MTU,)
    return (*unsaid, *mtu, *without_list(minor))


def without_list(minor: str) -> tuple[LeftOutCheck, ...]:
    """Return the checks with pods of images that only the conformance list of a minor names; none where it has one."""
    if curated_path(minor).is_file():
        return ()
    reason = f"Kubernetes {minor} has no conformance list, which names the images of their pods"
    return tuple(LeftOutCheck(check=check, reason=reason) for check in PROBING)


def not_judged(facts: Facts, suites: Collection[str], minor: str) -> tuple[str, ...]:
    """Return a line for each fact that is not said, and for what is not run: it was not asked for, or has no data."""
    lines = [f"{name}: the facts do not say it" for name in facts.unsaid()]
    if facts.kubernetes is None:
        lines[0] += "; minor and defaults are those of the API server's own release"
    if CONFORMANCE not in suites:
        lines.append(f"suite {CONFORMANCE}: --suite {CONFORMANCE} runs it")
    lines += [f"{left.check}: {left.reason}" for left in without_list(minor) if left.check.partition(":")[0] in suites]
    return tuple(lines)


NAME, STAGE = "cluster", "given"
NO_KEY = Path("none")


@dataclass(frozen=True)
class ForeignCheck:
    """What is checked: the cluster as a guest, and the plan by which pytest collects its checks."""

    plan: RunPlan
    given: GivenInventory
    kubeconfig: Path
    facts: Facts
    variables: Mapping[str, Any]
    not_judged: tuple[str, ...]

    @property
    def subject(self) -> str:
        """Return what is checked, for a person."""
        return f"{self.kubeconfig}: Kubernetes {self.variables['cluster_kubernetes_version']}"

    @property
    def started(self) -> dict[str, Any]:
        """Return what the results say at their start."""
        return {"run": self.plan.run}

    @property
    def guest(self) -> GuestCluster:
        """Return the cluster as checks see it; no cell's namespace says that nobody made it."""
        attempt = self.plan.files.path
        cell = self.plan.cells[0]
        environment = Environment(self.plan.run, cell, 1, "", self.given.machines, attempt, NO_KEY)
        return GuestCluster(environment, self.kubeconfig.absolute(), self.variables)

    def connect(self, environment: Environment) -> list[str]:
        """Return how checks connect to all machines, over shared connections; the rest each machine has by itself."""
        control = control_directory(environment.run, environment.cell.id)
        control.mkdir(mode=0o700, exist_ok=True)
        return unattended_options(control)

    def site(self, _progress: Callable[[str], None]) -> Site:
        """Return what checks ask of an infra cluster, of which there is none."""
        project = self.plan.project

        def no_image(name: str) -> Any:
            raise HarnessBug(f"image {name!r} is asked for to check a cluster of others")

        return Site(
            cluster=Cluster.from_kubeconfig(self.kubeconfig, patience=Patience.of(project.timeouts)),
            spec=project.spec,
            timeouts=project.timeouts,
            mirror=Mirror(http="", registry=self.facts.test_registry or ""),
            guest_vars={},
            image=no_image,
            storage_class=None,
            project=project.directory,
            expiry_hours=1.0,
        )

    @contextmanager
    def joined(self, site: Site, recorder: Recorder) -> Iterator[Life]:
        """Yield the cluster's life, of which nothing ends with the body."""
        cell = self.plan.cells[0]
        life = Life(site, Attempt(self.plan.run, cell, 1, self.plan.files.path), Steps(recorder, cell.id, 1))
        folder = control_directory(self.plan.run, cell.id)
        with ssh.held(folder, ssh.Owner(str(self.kubeconfig.resolve()), 0.0)):
            life.environment, life.guests = self.guest.environment, [self.guest]
            yield life
        ssh.sweep(self.kubeconfig.resolve())


@dataclass(frozen=True)
class GivenCluster:
    """The files that lead to a cluster. settings: of the working directory."""

    settings: Settings
    kubeconfig: Path
    inventories: tuple[Path, ...]
    facts: Path | None


def given_cluster(
    options: Mapping[str, Any], inventories: Sequence[str | Path], facts: str | Path | None
) -> GivenCluster:
    """Return the files that lead to a cluster.

    Args:
        options: those of the command line, by name; None for those not given.

    Raises:
        BadInput: there is no kubeconfig, or an option is about an infra cluster.
    """
    about_infra = [
        name for name in ("provider", "infra_name", "context", "namespace", "access") if options.get(name) is not None
    ]
    if about_infra:
        words = " and ".join("--" + name.replace("_", "-") for name in about_infra)
        raise BadInput(
            f"{words} leads to an infra cluster, and a cluster with --inventory has none", hint="leave it out"
        )
    if options.get("kubeconfig") is None:
        raise BadInput("--inventory needs --kubeconfig, the kubeconfig of the cluster's admin", hint="pass both")
    settings = load_settings(
        settings_dir(), options={name: options.get(name) for name in ("runs", "timeout_scale")}
    ).settings
    return GivenCluster(
        settings, Path(options["kubeconfig"]), tuple(map(Path, inventories)), Path(facts) if facts else None
    )


def plan_foreign(where: GivenCluster, suites: Sequence[str] = ()) -> ForeignCheck:
    """Plan to check a cluster that vmatrix did not make; nothing is written.

    Raises:
        BadInput: a file or a suite is wrong.  InfraError: the cluster's API does not answer.
    """
    known = [suite for suite in suites_of(anywhere()) if suite in (*DEFAULT_SUITES, POLICIES, CONFORMANCE)]
    for suite in suites:
        if suite not in known:
            raise BadInput(unknown("suite", suite, known), hint=f"suites: {', '.join(known)}")
    file, document = load_file(where.facts, FactsFile) if where.facts is not None else (FactsFile(), None)
    told = file.facts
    _refuse_policies_unsaid(document, told, suites)
    cluster = Cluster.from_kubeconfig(where.kubeconfig)
    inventory = given_inventory(where.inventories, _groups(told))
    plugin = plugins().get(told.network_plugin or "")
    release = cluster.version().removeprefix("v")
    variables = {"cluster_kubernetes_version": release, **told.given(plugin.version if plugin is not None else None)}
    _refuse_half_families(where, inventory, variables)
    _refuse_release(where, str(variables["cluster_kubernetes_version"]))
    minor = minor_of(str(variables["cluster_kubernetes_version"]))
    if CONFORMANCE in suites:
        load_curated(minor)  # which says that there is none
    spec = load_spec(anywhere() / MATRIX, expired_ok=True)
    phase = Phase(STAGE, machines=tuple(m.name for m in inventory.machines), vars=variables)
    cell = Cell(NAME, {}, STAGE, (phase,), tuple(m.planned for m in inventory.machines), variables)
    product = Product(
        name="given",
        directory=".",
        phases={"deploy": ProductPhase()},
        cluster=told.cluster,
        checks=told.checks.model_copy(update={"leave_out": (*told.checks.leave_out, *without(told, minor))}),
    )
    own = spec.model_copy(update={"product": product, "products": {}, "quarantine": ()})
    project = Project(anywhere(), own, where.settings)
    meant = frozenset(suites or (*DEFAULT_SUITES, *([POLICIES] if told.network_policies else [])))
    run = random_id()
    directory = RunDir.of_given(where.settings.runs, run).path
    plan = RunPlan(run, None, (cell,), project, directory, only=meant, after=0)
    return ForeignCheck(plan, inventory, where.kubeconfig, told, variables, not_judged(told, meant, minor))


def _refuse_policies_unsaid(facts: Document | None, told: Facts, suites: Sequence[str]) -> None:
    if POLICIES not in suites or told.network_policies:
        return
    needs = f"the suite {POLICIES} needs a cluster that enforces NetworkPolicies"
    if facts is not None:
        raise refuse([facts.problem(("facts", "network_policies"), f"{needs}; set it to true, or leave the suite out")])
    raise BadInput(f"{needs}, and no file says that this one does", hint="pass --facts with `network_policies: true`")


def _refuse_half_families(where: GivenCluster, given: GivenInventory, variables: Mapping[str, Any]) -> None:
    lacking = [machine.name for machine in given.machines if not machine.ipv6_address]
    if variables.get(IPV6_PODS) and lacking:
        inventories = ", ".join(map(str, where.inventories))
        raise BadInput(
            f"{where.facts} sets {IPV6_PODS}, and {inventories} gives no IPv6 address to {', '.join(lacking)}",
            hint="set the variable ipv6_address of each machine in the inventory",
        )


def _refuse_release(where: GivenCluster, release: str) -> None:
    """Refuse a release that says nothing, such as that of a build without one: no check could compare with it."""
    if re.match(KUBERNETES, release) is None:
        raise BadInput(
            f"{where.kubeconfig}: the API server's release is {shown(release)}, which is not one of Kubernetes",
            hint="name the release in the file of facts, such as `kubernetes: 1.36.3` (--facts)",
        )


def _groups(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Return the inventory's possible names of each of our groups."""
    own: dict[str, tuple[str, ...]] = {
        ours: (names,) if isinstance(names, str) else tuple(names) for ours, names in facts.groups.items()
    }
    return {**GROUPS, **own}
