"""Jinja filters about the names of API servers and the networks of interfaces.

`certificate_names`: those in a certificate. `other_names`: those that it lacks, and has too much. `networks_around`:
the networks of interfaces that have an address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any
from urllib.parse import urlsplit

import yaml
from cryptography import x509

# kubeadm's names of every API server: pkiutil.GetAPIServerAltNames
ALWAYS = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.{domain}")


def _plain(text: Any) -> str:
    """Return a name in lower case, or an address in its usual form."""
    try:
        return str(ip_address(str(text)))
    except ValueError:
        return str(text).lower()


def _wanted(configuration: str) -> Iterator[str]:
    """Yield the names that kubeadm gives an API server by its configuration."""
    documents = [one for one in yaml.safe_load_all(configuration) if isinstance(one, Mapping)]
    init, cluster = (
        next((one for one in documents if one.get("kind") == kind), {})
        for kind in ("InitConfiguration", "ClusterConfiguration")
    )
    networking = cluster.get("networking") or {}
    yield from (name.format(domain=networking.get("dnsDomain", "cluster.local")) for name in ALWAYS)
    yield (init.get("nodeRegistration") or {}).get("name", "")
    yield (init.get("localAPIEndpoint") or {}).get("advertiseAddress", "")
    yield urlsplit(f"//{cluster.get('controlPlaneEndpoint') or ''}").hostname or ""
    first = str(networking.get("serviceSubnet") or "").partition(",")[0]
    yield str(ip_network(first)[1]) if first else ""
    yield from (cluster.get("apiServer") or {}).get("certSANs") or ()


def certificate_names(certificate: str) -> list[str]:
    """Return the names in a certificate, as PEM."""
    extensions = x509.load_pem_x509_certificate(certificate.encode()).extensions
    return sorted(
        {_plain(name.value) for name in extensions.get_extension_for_class(x509.SubjectAlternativeName).value}
    )


def other_names(certificate: str, configuration: str) -> dict[str, list[str]]:
    """Return the names that an API server's certificate lacks, and those that it has too much.

    Args:
        certificate: as PEM.  configuration: kubeadm's, of this machine.
    """
    there = set(certificate_names(certificate))
    wanted = {_plain(name) for name in _wanted(configuration) if name}
    return {"missing": sorted(wanted - there), "surplus": sorted(there - wanted)}


def networks_around(links: Sequence[Mapping[str, Any]], address: str) -> list[str]:
    """Return the networks that have an address, of interfaces as `ip -json address` has them."""
    own = [f"{one['local']}/{one['prefixlen']}" for link in links for one in link.get("addr_info") or ()]
    return [text for text in own if ip_address(address) in ip_interface(text).network]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "certificate_names": certificate_names,
            "other_names": other_names,
            "networks_around": networks_around,
        }
