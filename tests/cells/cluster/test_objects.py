"""What the API keeps: nothing waits for ever, and what kubeadm keeps for later is what the cell asks for."""

from __future__ import annotations

from harness.kube import Cluster
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.expected import ExpectedGuest
from harness.validate.facts import cluster
from harness.validate.findings import eventually, require
from harness.validate.inspection import Inspection
from harness.validate.topics import cluster_objects, kubeadm, kubelet


def test_everything_that_the_api_serves_can_be_read(api: Cluster, timeouts: Timeouts) -> None:
    require(
        eventually(
            lambda: [
                *cluster_objects.unreadable(api, cluster_objects.served_objects(api)),
                *cluster_objects.closed_webhooks(api),
            ],
            deadline=Deadline.after(timeouts.probe_follow),
            what="APIs and webhooks to answer",
        ),
        claim="every resource can be listed in each of its versions, and whoever converts or admits objects answers",
        look="the Service behind the webhook or APIService; status.storedVersions of the definition",
        do="kubectl --kubeconfig kubeconfig get "
        "apiservices,customresourcedefinitions,validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml",
    )


def test_nothing_waits_for_ever(api: Cluster, expected: ExpectedGuest, timeouts: Timeouts) -> None:
    require(
        eventually(
            lambda: [
                *cluster_objects.unfinished(api),
                *cluster_objects.undeletable(cluster_objects.served_objects(api), expected),
            ],
            deadline=Deadline.after(timeouts.settle),
            what="requests, deletions and APIServices to come to an end",
        ),
        claim="APIServices are available; no certificate request is pending, no volume failed; nothing is being "
        "deleted, and everything could be",
        look="the condition's message; the Service behind the APIService; the controller that takes away the finalizer",
        do="kubectl --kubeconfig kubeconfig get apiservices,certificatesigningrequests,namespaces,persistentvolumes",
    )


def test_bootstrap_tokens_expire(inspection: Inspection) -> None:
    require(
        cluster_objects.lasting_tokens(inspection.api, namespaces=inspection.expected.namespaces),
        claim="every bootstrap token expires within a day, and the cluster's own accounts have no lasting tokens",
        look="how the deployment makes tokens: kubeadm token create --ttl",
        do="kubectl --kubeconfig kubeconfig -n kube-system get secrets -o wide",
    )


def test_kubeadm_keeps_the_settings_of_the_cell(inspection: Inspection) -> None:
    require(
        kubeadm.wrong_cluster_settings(inspection.api, inspection.guest.kubeconfig, inspection.expected),
        claim="kubeadm-config and cluster-info, which upgrades and joins read, are those of the cell",
        look="what wrote the ConfigMaps: kubeadm init phase upload-config, kubeadm upgrade apply",
        do="kubectl --kubeconfig kubeconfig -n kube-system get configmap kubeadm-config -o yaml",
    )


def test_running_kubelets_are_configured_as_kubeadm_keeps_it(inspection: Inspection) -> None:
    expected = inspection.expected
    running = kubelet.kubelet_configurations(inspection.api, expected)
    address = cluster.dns_address(inspection.api, expected)
    require(
        [
            *kubeadm.wrong_kubelet_template(inspection.api, running, address, expected),
            *kubeadm.strange_kubelet_files(inspection.api, inspection.setups, expected),
        ],
        claim="kubelet-config, which the next machine gets, has the cell's settings, and every kubelet runs with them",
        look="/var/lib/kubelet/config.yaml on the machine; was kubelet restarted after it changed?",
        do="kubectl --kubeconfig kubeconfig -n kube-system get configmap kubelet-config -o yaml",
    )


def test_nobody_else_changes_or_refuses_objects(inspection: Inspection) -> None:
    found = cluster_objects.strange_admission(inspection.api, inspection.expected)
    kinds = cluster_objects.resources_of(found)
    require(
        found,
        claim="nothing changes, refuses, delays or limits objects but what is the product's: webhook, policy, quota",
        look="who made the object: its metadata.managedFields",
        do=f"kubectl --kubeconfig kubeconfig get {kinds} -A -o yaml --show-managed-fields",
    )
