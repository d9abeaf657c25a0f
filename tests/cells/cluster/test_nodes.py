"""The cluster's nodes are the inventory's machines, and all are healthy."""

from __future__ import annotations

from harness.kube import Cluster
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.commands import kubectl
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.findings import eventually, require
from harness.validate.topics import nodes


def test_every_machine_is_a_ready_node_and_no_other_is(
    view: ClusterView, api: Cluster, expected: ExpectedGuest, timeouts: Timeouts
) -> None:
    # A kubelet that finds no Node of its own yet looks again after 10 s (component-helpers/apimachinery/lease).
    leases = eventually(
        lambda: nodes.strange_leases(api, view, expected),
        deadline=Deadline.after(timeouts.probe_follow),
        what="every kubelet to have a Lease",
    )
    require(
        [*nodes.unready_nodes(view, expected), *leases],
        claim="the Ready nodes, and those with a Lease, are exactly the inventory's machines",
        look="journalctl -u kubelet on the machine; the events of the node",
        do=kubectl(expected, "describe node NODE"),
    )


def test_nodes_have_the_expected_versions(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        nodes.wrong_node_versions(view, expected),
        claim="every kubelet and container runtime reports the cell's version",
        look="the node's status.nodeInfo",
        do="kubectl --kubeconfig kubeconfig get nodes -o wide",
    )


def test_nodes_have_their_own_pod_networks(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        nodes.wrong_node_networks(view, expected),
        claim="every node has its machine's address and its pods are in a network of its own within the cluster's",
        look="the flags of kube-controller-manager; the node's spec.podCIDR",
        do="kubectl --kubeconfig kubeconfig get nodes -o yaml",
    )


def test_nodes_have_the_roles_of_the_inventory(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        nodes.wrong_roles(view, expected),
        claim="only the inventory's control planes have the control-plane label and taint",
        look="the node's labels and taints",
        do="kubectl --kubeconfig kubeconfig describe nodes",
    )


def test_nodes_have_no_labels_and_annotations_but_those_of_their_role(
    view: ClusterView, expected: ExpectedGuest
) -> None:
    require(
        nodes.strange_metadata(view, expected),
        claim="labels and annotations that change what is done with a node are its kubelet's and the product's",
        look="who wrote them: metadata.managedFields of the node",
        do="kubectl --kubeconfig kubeconfig get nodes -o yaml --show-managed-fields",
    )
