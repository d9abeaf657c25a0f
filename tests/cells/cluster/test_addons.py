"""The add-ons are available on every node, from the mirror, in the cell's versions, and do not restart."""

from __future__ import annotations

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.findings import eventually, require
from harness.validate.inspection import Inspection
from harness.validate.manifests import strange_objects
from harness.validate.topics import addons, dns, system_pods


def test_dns_and_the_cells_add_ons_are_available(view: ClusterView, expected: ExpectedGuest) -> None:
    names = ", ".join(("CoreDNS", *expected.addons))
    require(
        addons.unavailable_deployments(view, expected),
        claim=f"all replicas of {names} are available and up to date, and no other add-on exists",
        look="the pods' events and logs",
        do="kubectl --kubeconfig kubeconfig get deployments -A -o wide",
    )


def test_network_plugin_and_kube_proxy_are_ready_on_every_node(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        addons.unready_daemon_sets(view, expected),
        claim="kube-proxy and the network plugin have a ready pod on every node",
        look="the pods' events and logs",
        do="kubectl --kubeconfig kubeconfig get daemonsets,pods -A -o wide",
    )


def test_system_pods_are_ready_and_do_not_restart(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        system_pods.unready_pods(view, expected),
        claim="every system pod is Running and ready, and none keeps restarting",
        look="kubectl logs --previous of the pod",
        do="kubectl --kubeconfig kubeconfig get pods -A",
    )


def test_components_run_the_expected_versions(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        system_pods.wrong_image_versions(view, expected),
        claim="the pods of every component run the cell's version",
        look="the images of the pods of kube-system and the network plugin",
        do="kubectl --kubeconfig kubeconfig get pods -A -o jsonpath='{..image}'",
    )


def test_images_come_from_the_mirror(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        system_pods.foreign_images(view, expected),
        claim=f"every system pod's image comes from {expected.registry}",
        look="cluster_image_registry in inventory/extra-vars.yml; imageRepository in kubeadm's configuration",
        do="kubectl --kubeconfig kubeconfig get pods -A -o jsonpath='{..image}'",
    )


def test_coredns_is_configured_as_the_cell_asks(inspection: Inspection) -> None:
    kept = inspection.api.get(CONFIG_MAP, "coredns", "kube-system") or {}
    require(
        dns.wrong_corefile(kept.get("data") or {}, inspection.expected),
        claim="CoreDNS is configured as kubeadm does it, with the cell's domain and time of caching",
        look="what changed the ConfigMap; running pods go on with the last configuration that they understood",
        do="kubectl --kubeconfig kubeconfig -n kube-system get configmap coredns -o yaml",
    )


def test_the_systems_namespaces_have_the_systems_pods_only(
    api: Cluster, view: ClusterView, expected: ExpectedGuest
) -> None:
    require(
        system_pods.strange_system_pods(api, view, expected),
        claim="pods in the cluster's namespaces are the product's, and have the accounts and priorities of its add-ons",
        look="who made them: metadata.managedFields of the pod's owner",
        do="kubectl --kubeconfig kubeconfig get pods,serviceaccounts -A -o wide",
    )


def test_services_of_the_system_lead_to_pods_that_exist(
    api: Cluster, expected: ExpectedGuest, timeouts: Timeouts
) -> None:
    require(
        eventually(
            lambda: dns.wrong_services(api, expected),
            deadline=Deadline.after(timeouts.probe_follow),
            what="EndpointSlices to follow pods",
        ),
        claim="the cluster's own Services lead to its pods and machines, and the DNS Service is as kubeadm makes it",
        look="EndpointSlices that no controller manages; who changed the Service: metadata.managedFields",
        do="kubectl --kubeconfig kubeconfig -n kube-system get service,endpointslices -o yaml",
    )


def test_objects_of_add_ons_are_as_the_product_installs_them(api: Cluster, expected: ExpectedGuest) -> None:
    require(
        strange_objects(api, expected),
        claim="every object of CoreDNS, kube-proxy, the network plugin and add-ons is as its manifest has it",
        look="who changed the object: its metadata.managedFields",
        do="kubectl --kubeconfig kubeconfig get deployments,daemonsets,services -A -o yaml --show-managed-fields",
    )
