"""Pods on every node reach pods on every node, Services, DNS names and node ports."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from harness.kube.resources import SERVICE
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate import probes as dials
from harness.validate.commands import kubectl, on_machine
from harness.validate.expected import ExpectedGuest
from harness.validate.facts import cluster
from harness.validate.findings import Mismatch, NotRun, eventually, require
from harness.validate.inspection import Inspection
from harness.validate.phases.observation import dns_servers
from harness.validate.probes import UDP_PORT, Probes
from harness.validate.topics import connectivity, dns, ip_families

pytestmark = pytest.mark.usefixtures("curated_specs_meanwhile")
SERVICES = "the kube-proxy pods' logs; nft list table ip kube-proxy on the source's machine"
DNS = "CoreDNS's logs; /etc/resolv.conf in a pod; the Service kube-system/kube-dns"


Answering = tuple[str, Future[dict[str, str]]]  # a name outside of the cluster, and who answers for it, by node
Followed = Callable[[Callable[[], list[Mismatch]]], list[Mismatch]]
InEachFamily = Callable[[dials.OfFamily], list[Mismatch]]


@pytest.fixture(scope="module", autouse=True)
def answering(inspection: Inspection) -> Iterator[Answering]:
    """Ask the machines' own name servers while the probes start: where none answers, that takes seconds."""
    name = f"vmatrix-{secrets.token_hex(8)}.example.com"
    with ThreadPoolExecutor(1) as pool:
        expected, setups = inspection.expected, inspection.setups
        yield name, pool.submit(dns.answering, setups, name, expected, inspection.dial)


@pytest.fixture(scope="module")
def followed(probes: Probes, timeouts: Timeouts) -> Followed:
    """Return what judges until the network has picked up the probes; all checks share that time.

    When it is over, what is wrong has to be wrong twice: a busy host lets one of many requests wait for too long.
    """
    deadline = Deadline.after(timeouts.probe_follow)

    def follow(judge: Callable[[], list[Mismatch]]) -> list[Mismatch]:
        found = eventually(judge, deadline=deadline, what="the network to pick up the probe pods")
        return judge() if found and not dials.only_unasked(found) else found

    return follow


@pytest.fixture(scope="module")
def in_each_family(probes: Probes, expected: ExpectedGuest, followed: Followed) -> InEachFamily:
    """Return what judges the addresses of each IP family that the cell has, and follows like the others."""
    return lambda judge: followed(lambda: dials.of_each_family(probes, expected, judge))


def test_pods_reach_pods_on_every_node(expected: ExpectedGuest, in_each_family: InEachFamily) -> None:
    require(
        in_each_family(lambda probes, of: connectivity.unreachable_pods(probes, of, protocol="http")),
        claim="a pod on every node reaches a pod on every node, including its own, over TCP",
        look=expected.look,
        do=on_machine(expected, "curl http://POD_ADDRESS:8080/hostname"),
    )


def test_pods_reach_pods_on_every_node_by_udp(expected: ExpectedGuest, in_each_family: InEachFamily) -> None:
    require(
        in_each_family(lambda probes, of: connectivity.unreachable_pods(probes, of, protocol="udp")),
        claim="a pod on every node reaches a pod on every node, including its own, over UDP",
        look=expected.look,
        do=on_machine(expected, f"ss -lun; nft list ruleset; ip -s link  # udp port {UDP_PORT}"),
    )


def test_large_answers_arrive_from_every_node(expected: ExpectedGuest, in_each_family: InEachFamily) -> None:
    require(
        in_each_family(connectivity.lost_large_answers),
        claim=f"{connectivity.LARGE_BYTES} bytes pass in both directions between every two nodes",
        look=f"{expected.look}; the MTU of cni0, of the tunnel if there is one, and of the machine's link",
        do=on_machine(expected, "ip link; ping -c 3 -M do -s 1422 OTHER"),
    )


def test_pods_keep_their_address_on_the_way_to_pods(expected: ExpectedGuest, in_each_family: InEachFamily) -> None:
    require(
        in_each_family(connectivity.changed_sources),
        claim="a pod on every node is seen by pods on every node under its own address",
        look=f"rules that translate source addresses of pods; {expected.look}",
        do=on_machine(expected, "iptables-save -t nat 2>/dev/null; nft list ruleset"),
    )


def test_pods_on_every_node_reach_a_server_outside_of_the_cluster(
    probes: Probes, expected: ExpectedGuest, mirror: Mirror, followed: Followed
) -> None:
    require(
        followed(lambda: connectivity.closed_off(probes, expected, mirror.registry)),
        claim=f"pods on every node reach {mirror.registry}, which is outside of the cluster",
        look=f"rules that translate pods' addresses to the node's; {expected.look}",
        do=on_machine(expected, "iptables-save -t nat 2>/dev/null; nft list ruleset"),
    )


def test_a_server_outside_of_the_cluster_sees_pods_under_their_nodes_address(
    probes: Probes, inspection: Inspection, mirror: Mirror, followed: Followed
) -> None:
    expected = inspection.expected
    own = connectivity.seen_of_nodes(mirror, expected, inspection.dial)
    if not any(own.values()):
        raise NotRun(f"the mirror {mirror.http} does not tell whom it sees (GET /{connectivity.PATH})")
    require(
        followed(lambda: connectivity.changed_outside(probes, mirror, own, expected)),
        claim="a server outside of the cluster sees pods under the address of their node",
        look=f"rules that translate pods' addresses to the node's; {expected.look}",
        do=on_machine(expected, "iptables-save -t nat 2>/dev/null; nft list ruleset"),
    )


def test_service_is_served_by_every_backend_from_every_node_by_udp(in_each_family: InEachFamily) -> None:
    require(
        in_each_family(lambda probes, of: connectivity.unserved(probes, of, probes.service_address, protocol="udp")),
        claim="a Service's ClusterIP reaches each of its backends by UDP, from every node",
        look=SERVICES,
        do="kubectl --kubeconfig kubeconfig -n vmatrix-probe get service,endpointslices",
    )


def test_service_address_is_served_by_every_backend_from_every_node(
    probes: Probes, expected: ExpectedGuest, in_each_family: InEachFamily
) -> None:
    require(
        in_each_family(lambda probes, of: connectivity.unserved(probes, of, probes.service_address)),
        claim="a Service's ClusterIP reaches each of its backends, from every node",
        look=SERVICES,
        do=on_machine(expected, f"curl http://{probes.service_address}/hostname"),
    )


def test_service_name_is_served_by_every_backend_from_every_node(
    probes: Probes, expected: ExpectedGuest, followed: Followed
) -> None:
    require(
        followed(lambda: connectivity.unserved(probes, expected, connectivity.service_name(expected))),
        claim="a Service's DNS name reaches each of its backends, from every node",
        look=DNS,
        do="kubectl --kubeconfig kubeconfig -n kube-system logs deployment/coredns",
    )


def test_node_port_is_open_on_every_node_from_every_node(
    probes: Probes, expected: ExpectedGuest, in_each_family: InEachFamily
) -> None:
    require(
        in_each_family(connectivity.closed_node_ports),
        claim="a NodePort answers pods on every node at every node's address",
        look=SERVICES,
        do=on_machine(expected, f"curl http://ADDRESS:{probes.node_port}/hostname"),
    )


def test_api_server_is_reached_by_name_from_every_node(
    probes: Probes, expected: ExpectedGuest, followed: Followed
) -> None:
    require(
        followed(lambda: connectivity.api_unreachable(probes, expected)),
        claim="pods on every node reach the API server by its DNS name, short and full",
        look=DNS,
        do="kubectl --kubeconfig kubeconfig -n default get service,endpointslices",
    )


def test_pods_reach_kubelets_on_every_node(expected: ExpectedGuest, in_each_family: InEachFamily) -> None:
    require(
        in_each_family(connectivity.closed_kubelets),
        claim="pods on every node reach every node's kubelet at the node's address",
        look="rules on the node that drop what pods send to it",
        do=on_machine(expected, "nft list ruleset; ss -lntp"),
    )


def test_machines_reach_services_and_pods_on_every_node(
    probes: Probes, inspection: Inspection, in_each_family: InEachFamily
) -> None:
    expected, api = inspection.expected, inspection.api.get(SERVICE, "kubernetes", "default") or {}
    addresses = [str(one) for one in api.get("spec", {}).get("clusterIPs", [])]
    require(
        in_each_family(lambda probes, of: connectivity.unreached(probes, addresses, of, inspection.dial)),
        claim="every node itself reaches the pods of every node and the addresses of Services",
        look=f"rules for what the machine itself sends; {expected.look}",
        do=on_machine(expected, f"curl http://{probes.service_address}/hostname"),
    )


def test_packets_of_exactly_the_mtu_arrive_in_one_piece(inspection: Inspection, in_each_family: InEachFamily) -> None:
    expected = inspection.expected
    sizes = {name: connectivity.packet_size(inspection.facts[name], expected) for name in expected.nodes}
    require(
        in_each_family(lambda probes, of: connectivity.cut_packets(probes, sizes, of, inspection.dial)),
        claim="a packet of exactly the MTU that may not be cut up reaches pods on every node, and so does its answer",
        look=f"{expected.look}; the MTU of cni0, of the tunnel if there is one, and of the machine's link",
        do=on_machine(expected, "ping -c 3 -M do -s 1422 POD_ADDRESS"),
    )


def test_dns_answers_every_machine_by_udp_and_tcp(inspection: Inspection, followed: Followed) -> None:
    expected = inspection.expected
    service = cluster.dns_address(inspection.api, expected)
    servers = {service: "the DNS Service", **dict.fromkeys(dns_servers(inspection.view), "a DNS pod")}
    name = f"kubernetes.default.svc.{expected.dns_domain}"
    require(
        followed(lambda: connectivity.unanswered(servers, name, expected, inspection.dial)),
        claim="the DNS Service and each pod behind it answer every node itself, by UDP and by TCP",
        look=DNS,
        do=on_machine(expected, f"python3 -c 'import socket; socket.create_connection((\"{service}\", 53), 5)'"),
    )


def test_dns_passes_on_names_outside_of_the_cluster(
    inspection: Inspection, followed: Followed, answering: Answering
) -> None:
    (name, asked), expected = answering, inspection.expected
    own = asked.result()
    if not own:
        raise NotRun("no name server of the machines answers, so there is nothing to pass on to")
    servers = {cluster.dns_address(inspection.api, expected): "the DNS Service"}
    servers |= dict.fromkeys(dns_servers(inspection.view), "a DNS pod")
    require(
        followed(lambda: dns.not_passed_on(own, servers, name, expected, inspection.dial)),
        claim="the DNS Service and each pod behind it answer for names outside of the cluster, as machines get them",
        look="forward in the Corefile; /etc/resolv.conf in CoreDNS's pods; what drops their packets to port 53 outside",
        do="kubectl --kubeconfig kubeconfig -n kube-system logs deployment/coredns",
    )


@pytest.fixture(scope="module")
def services(probes: Probes, expected: ExpectedGuest) -> ip_families.Given:
    """Return the addresses of Services of every policy of IP families, which go with the probes' namespace."""
    return ip_families.create(probes.api, ip_families.asked(expected))


def test_services_have_addresses_of_the_ip_families_that_they_ask_for(
    services: ip_families.Given, expected: ExpectedGuest
) -> None:
    require(
        ip_families.wrong_families(services, expected),
        claim="a Service has an address of each IP family that it asks for, and is refused where the cell lacks one",
        look="--service-cluster-ip-range of kube-apiserver and of kube-controller-manager",
        do=kubectl(expected, "get servicecidrs", "-n vmatrix-probe get service -o yaml"),
    )


def test_services_answer_at_their_address_of_each_ip_family(
    probes: Probes, services: ip_families.Given, expected: ExpectedGuest, followed: Followed
) -> None:
    require(
        followed(lambda: ip_families.silent_addresses(probes, services, expected)),
        claim="pods on every node get an answer at each address of a Service, whatever IP families it asks for",
        look="the kube-proxy pods' logs; nft list table ip6 kube-proxy on the source's machine",
        do="kubectl --kubeconfig kubeconfig -n vmatrix-probe get service,endpointslices",
    )


def test_dns_has_the_addresses_of_services_by_ip_family(
    services: ip_families.Given, inspection: Inspection, followed: Followed
) -> None:
    expected, server = inspection.expected, cluster.dns_address(inspection.api, inspection.expected)
    require(
        followed(lambda: ip_families.wrong_records(server, services, expected, inspection.dial)),
        claim="DNS has an A record of a Service with an IPv4 address, an AAAA record of one with an IPv6 address",
        look=DNS,
        do=on_machine(
            expected, "python3 -c 'import socket; print(socket.getaddrinfo(\"kubernetes.default.svc.DOMAIN\", 443))'"
        ),
    )
