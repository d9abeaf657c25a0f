"""A machine's keys and kubeconfigs, as machine/keys.py prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.facts.node import Certificate, certificate_of


@dataclass(frozen=True)
class Kubeconfig:
    """Where a kubeconfig leads, the CA (PEM) that it trusts, and the certificate in it; None: it holds none."""

    server: str
    authority: str
    certificate: Certificate | None


@dataclass(frozen=True)
class MachineKeys:
    """One machine.

    pairs: why a certificate and the key beside it do not belong together, by the certificate's path.
    counts: how many certificates each file has.  authority: the cluster's CA (PEM).
    accounts: digests of the public halves of the keys for tokens, by path.
    """

    pairs: Mapping[str, str]
    counts: Mapping[str, int]
    kubeconfigs: Mapping[str, Kubeconfig]
    authority: str
    accounts: Mapping[str, str]


def keys_of(raw: Mapping[str, Any]) -> MachineKeys:
    """Read what machine/keys.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    return MachineKeys(
        pairs=raw["pairs"],
        counts=raw["counts"],
        kubeconfigs={path: _kubeconfig(path, one) for path, one in raw["kubeconfigs"].items()},
        authority=raw["authority"],
        accounts=raw["accounts"],
    )


def _kubeconfig(path: str, one: Mapping[str, str]) -> Kubeconfig:
    try:
        held = certificate_of(path, one["certificate"]) if one["certificate"] else None
    except ValueError:  # what it holds is no certificate, which is a finding and not the machine's fault
        held = None
    return Kubeconfig(one["server"], one["authority"], held)
