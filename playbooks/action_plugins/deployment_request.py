"""Ansible action: say all that is wrong with what a deployment was asked for, before any machine is touched.

Works on the controller alone: it looks at the inventory's groups, addresses, versions and choices, and asks the mirror
and the registry whether they have what the machines are going to fetch. A mirror that the controller cannot reach is
left to the machines, with a warning. Does not look at a machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import combinations
from typing import Any

from ansible.plugins.action import ActionBase

GROUPS = ("control_plane", "etcd", "node")
VERSION = re.compile(r"\d+\.\d+\.\d+")
MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in ("oci.image.manifest.v1", "oci.image.index.v1", "docker.distribution.manifest.v2")
)
SECONDS = 5.0  # for one answer of a mirror
CHUNK = 1 << 20  # bytes
Network = IPv4Network | IPv6Network
FIRST = ("pod_cidr", "service_cidr")
IPV6 = ("ipv6_pod_cidr", "ipv6_service_cidr")  # besides those of IPv4
EXAMPLES = {
    "pod_cidr": "10.243.0.0/16",
    "service_cidr": "10.95.0.0/16",
    "ipv6_pod_cidr": "fd10:243::/56",
    "ipv6_service_cidr": "fd10:95::/112",
}
NODE_PREFIX = {4: 24, 6: 64}  # by IP version; kubeadm's node-cidr-mask-size-ipv4 and -ipv6
# kubeadm: a pod network has 16 bits more than a node's at most. API server: a Service network has 20 bits at most.
LARGEST_PODS, LARGEST_SERVICES = 48, 108
FEWEST_SERVICES = 10  # addresses: kubeadm's constants.MinimumAddressesInServiceSubnet


def group_problems(groups: Mapping[str, list[str]], *, exists: bool) -> Iterator[str]:
    """Say what is wrong with the inventory's groups; `exists` when the cluster has been made before."""
    known = {name: list(groups.get(name, [])) for name in GROUPS}
    grouped = {machine for machines in known.values() for machine in machines}
    for machine in groups.get("all", []):
        if machine not in grouped:
            others = [name for name, names in groups.items() if machine in names and name not in ("all", "ungrouped")]
            where = f"it is in {', '.join(sorted(others))}" if others else "it is in none"
            yield f"machine {machine} is in none of the groups {', '.join(GROUPS)} ({where}): add it to one of them"
    for name in ("control_plane", "etcd"):
        if not known[name]:
            yield f"the group {name} is empty: add at least one machine"
    control_planes, etcd = known["control_plane"], known["etcd"]
    shared = [machine for machine in etcd if machine in control_planes]
    if shared and sorted(etcd) != sorted(control_planes):
        yield (
            f"the group etcd ({', '.join(etcd)}) shares {', '.join(shared)} with control_plane but is not equal to it:"
            " use the same machines in both (stacked etcd), or none in common (external etcd)"
        )
    elif len(etcd) == 2 and not exists:
        yield (
            f"two etcd members ({', '.join(etcd)}) stop when either fails, which is less available than one: use"
            + (" one or three control planes, or three separate machines for etcd" if shared else " one or three")
        )


def host_problems(
    machines: Iterable[str], hosts: list[dict[str, Any]], *, dual: bool = False, pods: str = ""
) -> Iterator[str]:
    """Say what is wrong with cluster_hosts, which has to tell every machine's address.

    Args:
        dual: whether machines have an IPv6 address besides.
        pods: the pod network, whose IP family is that of addresses.
    """
    names = Counter(str(host.get("name")) for host in hosts)
    yield from (f"cluster_hosts names {name} {count} times" for name, count in names.items() if count > 1)
    for machine in machines:
        if machine not in names:
            yield f"machine {machine} is not in cluster_hosts: add its name and address"
    yield from _wrong_families(hosts, dual=dual, version=6 if ":" in pods else 4)
    addresses = Counter(str(host[key]) for host in hosts for key in ("address", "ipv6_address") if key in host)
    for address, count in addresses.items():
        if address_of(address) is None:
            yield f"cluster_hosts: {address} is not an IP address"
        elif count > 1:
            yield f"cluster_hosts gives {address} to {count} machines: every machine needs a unique address"


def _wrong_families(hosts: list[dict[str, Any]], *, dual: bool, version: int) -> Iterator[str]:
    """Say which machines have an address of another IP family than the pods, or lack that of the second."""
    for host in hosts:
        address = address_of(str(host.get("address")))
        if address is not None and address.version != version:
            yield (
                f"cluster_hosts: the address {address} of machine {host.get('name')} is not of IPv{version}, as"
                " cluster_pod_cidr is: let both be of one IP family"
            )
    for host in hosts if dual else ():
        address = address_of(str(host.get("ipv6_address")))
        if address is None or address.version == 4:
            said = f"ipv6_address {host['ipv6_address']!r} is none" if "ipv6_address" in host else "it has none"
            yield (
                f"cluster_hosts: machine {host.get('name')} needs an ipv6_address, and {said}: add it, or leave"
                + (" cluster_ipv6_pod_cidr and cluster_ipv6_service_cidr empty")
            )


def address_of(text: str) -> Any:
    """Return an IP address, None when the text is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def network_problems(given: Mapping[str, Any], nodes: int) -> Iterator[str]:
    """Say what is wrong with the networks of pods and services.

    Args:
        given: `pod_cidr`, `service_cidr`, `ipv6_pod_cidr` and `ipv6_service_cidr` (both "" without IPv6), `hosts`, and
            `outside`: further addresses that machines have to reach.
        nodes: how many machines need a /24 of the pod network, and a /64 of that of IPv6.
    """
    networks: dict[str, Network] = {}
    for name in EXAMPLES:
        if given[name] or name not in IPV6:
            read = _network(name, str(given[name]))
            if isinstance(read, str):
                yield read
            else:
                networks[name] = read
    yield from _families(given, networks)
    yield from _sizes(networks, nodes)
    for one, other in combinations(networks, 2):
        if networks[one].overlaps(networks[other]):
            yield f"cluster_{one} {networks[one]} overlaps cluster_{other} {networks[other]}: choose separate networks"
    machines = {
        str(host[key]): f"machine {host.get('name')}"
        for host in given["hosts"]
        for key in ("address", "ipv6_address")
        if key in host
    }
    for text, what in (machines | dict.fromkeys(given["outside"], "the mirror")).items():
        for name, network in networks.items():
            if (address := address_of(text)) is not None and address in network:
                yield (
                    f"cluster_{name} {network} contains {text}, the address of {what}, which would become"
                    " unreachable: choose a network without machines"
                )


def _network(name: str, text: str) -> Network | str:
    """Read a network of pods or of services; what is wrong with it where it is none of its family."""
    remedy = f"use a network such as {EXAMPLES[name]}"
    try:
        found = ip_network(text)
    except ValueError as error:
        return f"cluster_{name}: {error}: {remedy}"
    return found if found.version == 6 or name not in IPV6 else f"cluster_{name} {found} is not of IPv6: {remedy}"


def _families(given: Mapping[str, Any], networks: Mapping[str, Network]) -> Iterator[str]:
    """Say where networks are of other IP families than they have to be, and what only one of the two of IPv6 is."""
    for name, other in (IPV6, IPV6[::-1]):
        if given[name] and not given[other]:
            yield f"cluster_{name} is set and cluster_{other} is not: set both, or none"
    pods, services = (networks.get(name) for name in FIRST)
    if pods is not None and services is not None and pods.version != services.version:
        yield f"cluster_pod_cidr {pods} and cluster_service_cidr {services} are of two IP families: use one"
    for name in FIRST:
        if given[IPV6[0]] and name in networks and networks[name].version == 6:
            yield (
                f"cluster_{name} {networks[name]} is of IPv6, and so is cluster_{IPV6[0]}: a cluster of both families"
                f" has IPv4 first, such as {EXAMPLES[name]}; one of IPv6 alone leaves cluster_ipv6_* empty"
            )


def _sizes(networks: Mapping[str, Network], nodes: int) -> Iterator[str]:
    """Say which pod networks have no network for each node, and which networks Kubernetes does not take."""
    for name in (FIRST[0], IPV6[0]):
        pods = networks.get(name)
        length = NODE_PREFIX[pods.version] if pods is not None else 0
        if pods is not None and (pods.prefixlen > length or 1 << (length - pods.prefixlen) < nodes):
            yield f"cluster_{name} {pods} has no /{length} for each of {nodes} nodes: choose a larger network"
        if pods is not None and pods.version == 6 and pods.prefixlen < LARGEST_PODS:
            yield f"cluster_{name} {pods} is too large: kubeadm takes a /{LARGEST_PODS} at most"
    for name in (FIRST[1], IPV6[1]):
        services = networks.get(name)
        if services is not None and services.version == 6 and services.prefixlen < LARGEST_SERVICES:
            yield f"cluster_{name} {services} is too large: the API server takes a /{LARGEST_SERVICES} at most"
        if services is not None and services.num_addresses < FEWEST_SERVICES:
            yield (
                f"cluster_{name} {services} has {services.num_addresses} addresses, and kubeadm asks for"
                f" {FEWEST_SERVICES}: choose a larger network"
            )


def version_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Say which versions these playbooks do not know; `known` has minors by component, `versions` what was chosen."""
    for name, version in given["versions"].items():
        minors = given["known"].get(name)
        if not VERSION.fullmatch(str(version)):
            yield f"cluster_{name}_version {version!r} is not a version such as 1.36.3"
        elif minors and str(version).rpartition(".")[0] not in minors:
            choices = ", ".join(f"{minor}.x" for minor in minors)
            yield f"cluster_{name}_version {version} is unknown: choose one of {choices}"
    for name, (chosen, possible) in given["choices"].items():
        if chosen not in possible:
            yield f"cluster_{name} {chosen!r} is unknown: choose one of {', '.join(possible)}"


def served(url: str, sha256: str | None) -> str | None:
    """Tell what is wrong with what an address serves; None when nothing is.

    Raises:
        OSError: the server could not be asked.
    """
    request = urllib.request.Request(url, method="GET" if sha256 else "HEAD", headers={"Accept": MANIFESTS})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - the mirror that the caller gave
            if not sha256:
                return None
            digest = hashlib.sha256()
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            return f"{url}: {error.code} {error.reason}"
    found = digest.hexdigest()
    return None if found == sha256 else f"{url}: checksum {found}, but cluster_checksums has {sha256}"


def addresses(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the address, and the checksum where one is given, of everything that machines are going to fetch."""
    images = (image.rpartition(":") for image in given["images"])
    manifests = [{"url": f"http://{given['registry']}/v2/{name}/manifests/{tag}"} for name, _, tag in images]
    return [{"url": release["url"], "sha256": release.get("sha256")} for release in given["releases"]] + manifests


def mirror_problems(wanted: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Ask for everything at once; return what is wrong, and which servers could not be asked."""

    def ask(item: dict[str, Any]) -> tuple[str | None, str | None]:
        try:
            return served(item["url"], item.get("sha256")), None
        except OSError as error:
            return None, f"{'/'.join(item['url'].split('/')[:3])}: {getattr(error, 'reason', error)}"

    if not wanted:
        return [], []
    with ThreadPoolExecutor(max_workers=min(len(wanted), 8)) as pool:
        answers = list(pool.map(ask, wanted))
    remedy = "add it to the mirror, or request a version that it has"
    wrong = [f"{problem}: {remedy}" for problem, _ in answers if problem]
    return wrong, sorted({silent for _, silent in answers if silent})


class ActionModule(ActionBase):  # type: ignore[misc]
    """Fail with every problem of the request, one a line; change nothing."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = json.loads(json.dumps(self._task.args))  # plain values, without Ansible's marks on them
        groups: dict[str, list[str]] = given["groups"]
        nodes = {*groups.get("control_plane", []), *groups.get("node", [])}
        problems = [
            *group_problems(groups, exists=bool(given["exists"])),
            *host_problems(
                groups.get("all", []), given["hosts"], dual=bool(given["ipv6_pod_cidr"]), pods=given["pod_cidr"]
            ),
            *network_problems(given, len(nodes)),
            *version_problems(given),
            *(given["disagreements"] or []),
        ]
        missing, silent = mirror_problems(addresses(given)) if not problems else ([], [])
        result["warnings"] = [f"cannot connect to {each}; machines will report what is missing" for each in silent]
        problems += missing
        if problems:
            many = f"{len(problems)} mistakes" if len(problems) > 1 else "a mistake"
            result |= {
                "failed": True,
                "msg": f"{many} in the request; nothing was changed:\n- " + "\n- ".join(problems),
            }
        result["changed"] = False
        return result
