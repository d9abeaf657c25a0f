"""Every machine runs the programs of its role and no others."""

from __future__ import annotations

from harness.validate.commands import on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import programs

# Units that may fail on a machine -> why that does not matter for the deployment. Ideally empty.
MAY_FAIL: dict[str, str] = {}


def test_kubelet_and_container_runtime_run_and_are_enabled(
    facts: dict[str, NodeFacts], expected: ExpectedGuest
) -> None:
    require(
        programs.stopped_services(facts, expected),
        claim="kubelet and the container runtime run and are enabled",
        look=f"journalctl -u kubelet -u {expected.runtime_process} on the machine",
        do=on_machine(expected, f"systemctl status kubelet {expected.runtime_process}"),
    )


def test_no_unit_has_failed(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        programs.failed_units(facts, expected, MAY_FAIL),
        claim="no systemd unit has failed, and logs are written",
        look="systemctl --failed on the machine; units that may fail are listed in tests/cells/nodes/test_services.py",
        do=on_machine(expected, "systemctl status UNIT"),
    )


def test_control_plane_and_etcd_run_where_the_inventory_says(
    facts: dict[str, NodeFacts], expected: ExpectedGuest
) -> None:
    require(
        programs.misplaced_processes(facts, expected),
        claim="every control-plane program and etcd runs once on each machine of its group, and nowhere else",
        look="/var/log/pods and journalctl -u kubelet on the machine",
        do=on_machine(expected, "ctr -n k8s.io tasks list"),
    )


def test_static_pods_are_those_of_the_role(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        programs.wrong_manifests(facts, expected),
        claim="control planes have kubeadm's static pods, other nodes have none",
        look="/etc/kubernetes/manifests on the machine",
        do=on_machine(expected, "ls -l /etc/kubernetes/manifests"),
    )


def test_kubelet_and_kube_proxy_call_themselves_healthy(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        programs.unhealthy_agents(facts, expected),
        claim="/healthz of kubelet (10248) and of kube-proxy (10256) answer 200 on every node",
        look="journalctl -u kubelet; the logs of the kube-proxy pod",
        do=on_machine(expected, "curl -i http://127.0.0.1:10248/healthz"),
    )


def test_units_have_the_products_settings_and_stay_up(inspection: Inspection) -> None:
    require(
        programs.other_units(inspection.setups, inspection.expected),
        claim="services have the settings of the product's units, and systemd has not restarted them often",
        look="the unit's file and what amends it; journalctl -u UNIT for why it was restarted",
        do=on_machine(inspection.expected, "systemctl show UNIT"),
    )


def test_processes_have_the_limits_of_their_units(inspection: Inspection) -> None:
    require(
        programs.limited_processes(inspection.setups, inspection.expected),
        claim="processes have the limits of their units and all processors, and are not killed before others",
        look="who called prlimit, choom, renice or taskset; systemctl show UNIT",
        do=on_machine(inspection.expected, "cat /proc/$(pgrep -o PROGRAM)/limits"),
    )
