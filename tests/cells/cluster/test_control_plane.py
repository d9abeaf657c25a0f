"""The API server, the kubelets and etcd answer as expected."""

from __future__ import annotations

from harness.kube import Cluster
from harness.validate.commands import etcdctl, kubectl, on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts import cluster
from harness.validate.facts.cluster import ClusterView
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import api_server, etcd, kubelet, rbac


def test_api_server_has_the_expected_version(api: Cluster, expected: ExpectedGuest) -> None:
    require(
        api_server.wrong_version(api, expected),
        claim="the API server reports the cell's version",
        look="the API server's image in /etc/kubernetes/manifests",
        do="kubectl --kubeconfig kubeconfig version",
    )


def test_api_server_is_ready_and_live_in_every_part(api: Cluster) -> None:
    require(
        api_server.failing_probes(api),
        claim="every check of /readyz and /livez of the API server passes",
        look="the API server's log",
        do="kubectl --kubeconfig kubeconfig get --raw '/readyz?verbose'",
    )


def test_api_server_refuses_strangers(inspection: Inspection) -> None:
    nobody = api_server.anonymous(inspection.guest.kubeconfig, inspection.directory / "anonymous.kubeconfig")
    require(
        api_server.admitted_strangers(nobody),
        claim="the API refuses to list objects without credentials",
        look="--anonymous-auth of the API server; bindings to system:anonymous and system:unauthenticated",
        do="kubectl --kubeconfig kubeconfig get clusterrolebindings -o wide",
    )


def test_every_api_server_is_ready_and_of_the_expected_version(inspection: Inspection) -> None:
    require(
        api_server.wrong_api_servers(inspection.setups, inspection.expected),
        claim="the API server of every control plane is ready, has the cell's version and refuses strangers",
        look="the API server's log and manifest on that machine",
        do=on_machine(inspection.expected, "curl -k https://ADDRESS:6443/readyz?verbose"),
    )


def test_rbac_grants_nothing_beyond_the_defaults(api: Cluster, expected: ExpectedGuest) -> None:
    require(
        rbac.excessive_rights(api, expected),
        claim="nobody but admins may read secrets, create pods or take others' rights, whatever group they are in",
        look="ClusterRoleBindings that are not bootstrap defaults",
        do="kubectl --kubeconfig kubeconfig get clusterrolebindings -o wide",
    )


def test_roles_and_bindings_are_those_of_the_version_and_the_product(api: Cluster, expected: ExpectedGuest) -> None:
    require(
        rbac.strange_rights(api, expected),
        claim="roles, what is aggregated into them, and bindings are those of the version and the product",
        look="who changed or made the object: its metadata.managedFields",
        do="kubectl --kubeconfig kubeconfig get clusterroles,clusterrolebindings,roles,rolebindings -A "
        "-o yaml --show-managed-fields",
    )


def test_the_clusters_own_accounts_have_their_rights(api: Cluster, expected: ExpectedGuest) -> None:
    require(
        rbac.lost_rights(api, expected),
        claim="scheduler, controllers, kube-proxy, CoreDNS and machines that join may do what they are for",
        look="bindings that are gone or changed; the API server makes its own ones again when it starts",
        do="kubectl --kubeconfig kubeconfig get clusterrolebindings,rolebindings -A -o wide",
    )


def test_static_pods_are_as_kubeadm_makes_them(view: ClusterView, expected: ExpectedGuest) -> None:
    require(
        kubelet.strange_static_pods(view, expected),
        claim="each static pod of a control plane has its one container, its probes and its folders, as of kubeadm",
        look="/etc/kubernetes/manifests on the machine; kubeadm init phase control-plane all --dry-run",
        do=kubectl(expected, "-n kube-system get pod POD -o yaml"),
    )


def test_running_kubelets_are_configured_as_the_cell_asks(inspection: Inspection) -> None:
    expected = inspection.expected
    address = cluster.dns_address(inspection.api, expected)
    settings, silent = kubelet.asked_kubelets(inspection.api, expected)
    require(
        kubelet.wrong_kubelet_settings(settings, address, expected, silent),
        claim="each running kubelet has the cell's settings, authenticates, authorizes, and gives pods the right DNS",
        look="/var/lib/kubelet/config.yaml on the machine; was kubelet restarted after it changed?",
        do=kubectl(expected, "get --raw /api/v1/nodes/NODE/proxy/configz"),
    )


def test_etcd_members_are_those_of_the_inventory(inspection: Inspection) -> None:
    require(
        etcd.wrong_members(inspection.etcd, inspection.expected),
        claim="etcd's voting members are exactly the machines of the group etcd",
        look="the etcd pod's log",
        do=etcdctl(inspection.expected, "member list"),
    )


def test_etcd_is_healthy_on_every_member(inspection: Inspection) -> None:
    require(
        etcd.unhealthy(inspection.etcd, inspection.expected),
        claim="every etcd member is healthy and has no alarm",
        look="the etcd pod's log; free space under /var/lib/etcd",
        do=etcdctl(inspection.expected, "endpoint health"),
    )


def test_etcd_has_room_for_what_is_written(inspection: Inspection) -> None:
    require(
        etcd.filling(inspection.etcd, inspection.expected),
        claim=f"every etcd member's file fills at most {etcd.FULL_PERCENT}% of its quota, so that writes go on",
        look="what writes so much: counts of keys by prefix; is etcd compacted and defragmented from time to time?",
        do=etcdctl(inspection.expected, "endpoint status --cluster"),
    )


def test_etcd_members_follow_one_leader(inspection: Inspection) -> None:
    require(
        etcd.disagreeing(inspection.etcd, inspection.expected),
        claim="every etcd member follows the same leader in the same term",
        look="the etcd pods' logs; the network between the members",
        do=etcdctl(inspection.expected, "endpoint status --cluster"),
    )


def test_etcd_has_the_expected_version(inspection: Inspection) -> None:
    require(
        etcd.wrong_versions(inspection.etcd, inspection.expected),
        claim="every etcd member runs the cell's version",
        look="the image in /etc/kubernetes/manifests/etcd.yaml",
        do=etcdctl(inspection.expected, "endpoint status"),
    )
