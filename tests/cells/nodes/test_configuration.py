"""Every machine's running processes, kernel, certificates and identity are configured as the cell wants."""

from __future__ import annotations

from collections.abc import Callable

from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.commands import on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, eventually, require
from harness.validate.inspection import Inspection
from harness.validate.topics import certificates, kube_proxy, kubeadm, operating_system, programs
from harness.validate.topics.certificates import CERTIFICATE_MARGIN


def test_running_processes_have_the_expected_flags(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        programs.wrong_flags(facts, expected),
        claim="the flags of the running processes are those of the cell",
        look="/etc/kubernetes/manifests and systemctl cat kubelet on the machine",
        do=on_machine(expected, "tr '\\0' '\\n' < /proc/$(pidof PROGRAM)/cmdline"),
    )


def test_kernel_is_set_up_for_kubernetes(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        operating_system.wrong_kernel_settings(facts, expected),
        claim="the kernel forwards packets, bridged packets pass the firewall, and swap is off",
        look="/etc/sysctl.d and /etc/modules-load.d on the machine",
        do=on_machine(expected, "sysctl SETTING; swapon --show"),
    )


def test_certificates_are_valid_and_name_the_machine(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        certificates.bad_certificates(facts, expected),
        claim=f"certificates are valid for {CERTIFICATE_MARGIN.days} more days and name their machine",
        look="/etc/kubernetes/pki and /var/lib/kubelet/pki on the machine",
        do=on_machine(expected, "kubeadm certs check-expiration"),
    )


def test_machines_have_identities_of_their_own(
    facts: dict[str, NodeFacts], expected: ExpectedGuest, timeouts: Timeouts
) -> None:
    require(
        operating_system.confused_identities(facts, expected, timeouts.clock_margin),
        claim="hostnames are those of the inventory, machine-ids are unique, clocks agree",
        look="/etc/machine-id; cloud-init's log",
        do=on_machine(expected, "hostnamectl; timedatectl"),
    )


def test_kube_proxy_runs_in_the_expected_mode(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        kube_proxy.wrong_proxy_mode(facts, expected),
        claim=f"kube-proxy runs in {expected.kube_proxy_mode} mode on every node and has written its rules",
        look="the logs of the kube-proxy pod; the ConfigMap kube-system/kube-proxy",
        do=on_machine(expected, "curl http://127.0.0.1:10249/proxyMode; nft list tables"),
    )


def test_no_program_runs_with_flags_that_nobody_asked_for(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        kubeadm.strange_flags(facts, expected),
        claim="every flag of a program is kubeadm's, the product's or the cell's, and none is missing",
        look="/etc/kubernetes/manifests, kubeadm-flags.env and the units on the machine",
        do=on_machine(expected, "tr '\\0' '\\n' < /proc/$(pidof PROGRAM)/cmdline"),
    )


def test_certificates_are_of_the_clusters_own_authorities(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        certificates.foreign_certificates(facts, expected),
        claim="the cluster's own authorities signed every certificate, and all machines know the same ones",
        look="what made or copied the certificate; is the machine of an earlier cluster?",
        do=on_machine(expected, "openssl verify -CAfile CA CERTIFICATE"),
    )


def test_keys_belong_to_their_certificates(inspection: Inspection) -> None:
    require(
        certificates.unfit_keys(inspection.keys, inspection.expected),
        claim="keys belong to the certificates beside them, CAs are single ones, and tokens have one pair of keys",
        look="what wrote the file after kubeadm; a program that runs has read the former one",
        do=on_machine(inspection.expected, "openssl x509 -noout -pubkey -in CERTIFICATE; openssl pkey -pubout -in KEY"),
    )


def test_kubeconfigs_are_those_of_kubeadm(inspection: Inspection) -> None:
    require(
        certificates.strange_kubeconfigs(inspection.keys, inspection.expected),
        claim="the kubeconfigs in /etc/kubernetes are kubeadm's: their users, the cluster's CA, the API's address",
        look="what wrote the file; a program that runs has read the former one",
        do=on_machine(inspection.expected, "kubectl config view --kubeconfig FILE"),
    )


def test_no_rules_or_queues_are_in_the_way_of_packets(inspection: Inspection) -> None:
    require(
        kube_proxy.obstacles(inspection.packets, inspection.expected),
        claim="machines have no rules for packets but the product's, and nothing delays what they send",
        look="firewalls; what a former network plugin or mode of kube-proxy has left",
        do=on_machine(inspection.expected, "iptables-save 2>/dev/null; nft list ruleset; ip link"),
    )


def test_kube_proxy_has_the_settings_of_the_cell(inspection: Inspection) -> None:
    require(
        [
            *kube_proxy.wrong_proxy_settings(inspection.api, inspection.running, inspection.expected),
            *kube_proxy.forgotten_connections(inspection.running, inspection.packets, inspection.expected),
        ],
        claim="every running kube-proxy has the cell's settings, else Kubernetes' defaults, and those of its ConfigMap",
        look="the ConfigMap kube-system/kube-proxy; were its pods restarted after it changed?",
        do=on_machine(inspection.expected, "curl http://127.0.0.1:10249/configz"),
    )


def test_kube_proxy_has_rules_for_every_service(inspection: Inspection, timeouts: Timeouts) -> None:
    def judge() -> list[Mismatch]:
        services = kube_proxy.services_of(inspection.api)
        must, may = kube_proxy.endpoints_of(inspection.api)
        return [
            *kube_proxy.missing_rules(services, inspection.setups, inspection.expected),
            *kube_proxy.strayed_rules(must, may, inspection.packets, inspection.expected),
        ]

    first = judge()
    require(
        follow_setups(inspection, judge, timeouts) if first else first,
        claim="every node has rules for every port of every Service, and they lead to its endpoints and nowhere else",
        look="the logs of the kube-proxy pod; what else writes rules on the machine",
        do=on_machine(inspection.expected, "iptables-save -t nat 2>/dev/null; nft list ruleset"),
    )


def follow_setups(inspection: Inspection, judge: Callable[[], list[Mismatch]], timeouts: Timeouts) -> list[Mismatch]:
    """Look again until kube-proxy has followed the Services, or its time to do so is over."""

    def again() -> list[Mismatch]:
        for gathered in ("setups", "packets"):
            inspection.__dict__.pop(gathered, None)
        return judge()

    return eventually(again, deadline=Deadline.after(timeouts.probe_follow), what="kube-proxy to write its rules")


def test_certificates_are_for_their_role(facts: dict[str, NodeFacts], expected: ExpectedGuest) -> None:
    require(
        certificates.other_roles(facts, expected),
        claim="certificates have the names, groups, alternative names and usages that kubeadm gives each file",
        look="what wrote the file after kubeadm; certSANs in /etc/kubernetes/kubeadm.yml",
        do=on_machine(expected, "openssl x509 -in FILE -noout -text"),
    )


def test_kubeconfigs_have_the_form_of_kubeadms(inspection: Inspection) -> None:
    require(
        certificates.other_forms(inspection.keys, inspection.expected),
        claim="kubeconfigs have kubeadm's form, and kubelet's names the link to the certificate that kubelet renews",
        look="what wrote the file after kubeadm; /var/lib/kubelet/pki",
        do=on_machine(inspection.expected, "kubectl config view --kubeconfig FILE; ls -l /var/lib/kubelet/pki"),
    )
