"""The API server of a hardened cluster: whom it answers, what it keeps, what it admits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.kube import Cluster
from harness.spec.models import Waiver
from harness.validate.commands import etcdctl, on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics.hardening import admission, machines
from harness.validate.topics.hardening.benchmark import unwaived
from harness.validate.variables import AUDIT, EVENTS, HEALTH_ONLY, KEY, PLUGINS, POD_SECURITY, asks

LOG = "/var/log/kubernetes/audit.log on the control plane"


@pytest.mark.when(phase=asks(HEALTH_ONLY))
def test_strangers_may_ask_for_health_alone(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.served_strangers(inspection.hardening.seen, inspection.expected), waivers),
        claim="every API server answers strangers who ask for health, and nobody else of them",
        look="--authentication-config of the API server, and the file that it names",
        do=on_machine(inspection.expected, "curl -k https://ADDRESS:6443/version"),
    )


@pytest.mark.when(phase=asks(AUDIT))
def test_requests_are_audited_without_the_content_of_secrets(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.unaudited(inspection.hardening.seen, inspection.expected), waivers),
        claim="the audit log of every API server has a request and its user, and nothing of what is in a Secret",
        look=f"{LOG}; /etc/kubernetes/hardening/audit.yml",
        do=on_machine(inspection.expected, "tail -n 3 /var/log/kubernetes/audit.log"),
    )


@pytest.mark.when(phase=asks(KEY))
def test_secrets_are_encrypted_in_etcd(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    look = inspection.hardening
    require(
        unwaived(machines.readable_secrets(look.seen, look.made, inspection.expected), waivers),
        claim="every Secret in etcd is encrypted with the cell's key, and none of its content can be read there",
        look="/etc/kubernetes/hardening/encryption.yml on control planes; rotate-encryption-key.yml writes all anew",
        do=etcdctl(inspection.expected, "get --prefix --keys-only /registry/secrets/"),
    )


@pytest.mark.when(phase=asks(POD_SECURITY))
def test_pods_need_an_exemption_to_reach_for_the_machine(api: Cluster, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(admission.admitted_pods(api), waivers),
        claim="a namespace without labels admits plain pods, and none that reaches for its machine",
        look="PodSecurity in /etc/kubernetes/hardening/admission.yml; --admission-control-config-file",
        do="kubectl --kubeconfig kubeconfig run reach --image=none --privileged --dry-run=server",
    )


@pytest.mark.when(phase=asks(PLUGINS))
def test_services_claim_no_addresses_outside_of_the_cluster(api: Cluster, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(admission.admitted_addresses(api), waivers),
        claim="a Service with external addresses is refused, and one without is not",
        look="DenyServiceExternalIPs in --enable-admission-plugins of the API server",
        do="kubectl --kubeconfig kubeconfig create service clusterip none --tcp=80 --dry-run=server -o yaml",
    )


@pytest.mark.when(phase=asks(EVENTS))
def test_events_of_a_namespace_are_limited(api: Cluster, expected: ExpectedGuest, waivers: Sequence[Waiver]) -> None:
    limits = expected.variables[EVENTS]
    require(
        unwaived(admission.unlimited_events(api, limits), waivers),
        claim="a namespace may have some events at once, and more are refused",
        look="EventRateLimit in /etc/kubernetes/hardening/admission.yml and in --enable-admission-plugins",
        do="kubectl --kubeconfig kubeconfig get --raw /metrics | grep apiserver_admission_controller",
    )
