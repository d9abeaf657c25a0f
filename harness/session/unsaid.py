"""What is not judged of a cluster since its file of facts does not say it: checks that are left out, and the list."""

from __future__ import annotations

from collections.abc import Collection

from harness.spec.models.facts import Facts
from harness.spec.models.leaves import LeftOutCheck
from harness.spec.suites import CONFORMANCE
from harness.validate.conformance.curated import curated_path

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
