"""Every machine's running processes, kernel, certificates and identity are configured as the cell wants."""

from __future__ import annotations

from harness.spec.models import Timeouts
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge import node_configuration
from harness.validate.judge.mismatch import require
from harness.validate.judge.node_configuration import CERTIFICATE_MARGIN


def test_running_processes_have_the_expected_flags(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        node_configuration.wrong_flags(facts, expected),
        claim="the flags of the running processes are those of the cell",
        look="/etc/kubernetes/manifests and systemctl cat kubelet on the machine",
        do=f"{expected.login()}, then tr '\\0' '\\n' < /proc/$(pidof PROGRAM)/cmdline",
    )


def test_kernel_is_set_up_for_kubernetes(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        node_configuration.wrong_kernel_settings(facts, expected),
        claim="the kernel forwards packets, bridged packets pass the firewall, and swap is off",
        look="/etc/sysctl.d and /etc/modules-load.d on the machine",
        do=f"{expected.login()}, then sysctl SETTING; swapon --show",
    )


def test_certificates_are_valid_and_name_the_machine(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        node_configuration.bad_certificates(facts, expected),
        claim=f"certificates are valid for {CERTIFICATE_MARGIN.days} more days and name their machine",
        look="/etc/kubernetes/pki and /var/lib/kubelet/pki on the machine",
        do=f"{expected.login()}, then kubeadm certs check-expiration",
    )


def test_machines_have_identities_of_their_own(
    facts: dict[str, NodeFacts], expected: ExpectedGuest, timeouts: Timeouts
) -> None:
    require(
        node_configuration.confused_identities(facts, expected, timeouts.clock_margin),
        claim="hostnames are those of the inventory, machine-ids are unique, clocks agree",
        look="/etc/machine-id; cloud-init's log",
        do=f"{expected.login()}, then hostnamectl; timedatectl",
    )


def test_kube_proxy_runs_in_the_expected_mode(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        node_configuration.wrong_proxy_mode(facts, expected),
        claim=f"kube-proxy runs in {expected.kube_proxy_mode} mode on every node and has written its rules",
        look="the logs of the kube-proxy pod; the ConfigMap kube-system/kube-proxy",
        do=f"{expected.login()}, then curl http://127.0.0.1:10249/proxyMode; nft list tables",
    )
