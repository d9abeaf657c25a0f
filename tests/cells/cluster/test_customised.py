"""Where the cell customises kubeadm, what runs has its patches, and schedulers have its configuration."""

from __future__ import annotations

import pytest

from harness.validate.commands import kubectl, on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import customised, kubelet
from harness.validate.variables import DNS_TARGET, KUBELET_TARGET, SCHEDULER, STATIC_TARGETS, asks, patches


@pytest.mark.when(phase=patches(*STATIC_TARGETS))
def test_static_pods_have_the_patches_of_the_cell(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        customised.unpatched_pods(view, expected),
        claim="each static pod of a control plane runs with the cell's patches",
        look="/etc/kubernetes/patches and /etc/kubernetes/manifests on the machine; patches of kubeadm's configuration",
        do=kubectl(expected, "-n kube-system get pod POD -o yaml"),
    )


@pytest.mark.when(phase=patches(KUBELET_TARGET))
def test_kubelets_have_the_patches_of_the_cell(inspection: Inspection) -> None:
    settings, silent = kubelet.asked_kubelets(inspection.api, inspection.expected)
    require(
        customised.unpatched_kubelets(settings, silent, inspection.expected),
        claim="each running kubelet has the cell's patches of its configuration",
        look="/etc/kubernetes/patches and /var/lib/kubelet/config.yaml on the machine; was kubelet restarted?",
        do=kubectl(inspection.expected, "get --raw /api/v1/nodes/NODE/proxy/configz"),
    )


@pytest.mark.when(phase=patches(DNS_TARGET))
def test_coredns_has_the_patches_of_the_cell(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        customised.unpatched_dns(view, expected),
        claim="CoreDNS' Deployment and its pods have the cell's patches",
        look="/etc/kubernetes/patches on control planes; kubeadm init phase addon coredns",
        do="kubectl --kubeconfig kubeconfig -n kube-system get deployment,pods -l k8s-app=kube-dns -o yaml",
    )


@pytest.mark.when(phase=asks(SCHEDULER))
def test_schedulers_have_the_configuration_of_the_cell(inspection: Inspection) -> None:
    require(
        customised.other_scheduler(inspection.customised, inspection.expected),
        claim="each running scheduler has read the cell's KubeSchedulerConfiguration and has its settings in effect",
        look="/etc/kubernetes/scheduler/config.yml and the manifest of kube-scheduler on the machine",
        do=on_machine(inspection.expected, "cat /etc/kubernetes/scheduler/config.yml"),
    )
