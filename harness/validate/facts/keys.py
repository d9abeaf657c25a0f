"""Keys, kubeconfigs and files with secrets of a machine, as machine/keys.py prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.validate.facts.node import Certificate, certificate_of


@dataclass(frozen=True)
class Kubeconfig:
    """Where a kubeconfig leads, the CA (PEM) that it trusts, and the certificate in it; None: it holds none.

    form: the whole of it without its secrets, which are `given`.
    """

    server: str
    authority: str
    certificate: Certificate | None
    form: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SecretFile:
    """A file with a private key, a kubeconfig's credentials, a token, a key for Secrets or etcd's data.

    what: key, kubeconfig, token, encryption or etcd.  readable: whether any user of the machine reads it.
    digests: of the keys in it, by which copies are told.
    """

    path: str
    what: str
    mode: int
    owner: int
    readable: bool
    digests: frozenset[str]


@dataclass(frozen=True)
class MachineKeys:
    """One machine.

    pairs: why a certificate and the key beside it do not belong together, by the certificate's path.
    counts: how many certificates each file has.  authority: the cluster's CA (PEM).
    accounts: digests of the public halves of the keys for tokens, by path.
    pair: where kubelet's client certificate leads ("": nowhere, it is a file), and whether a certificate and a key are
    there.  secrets: files with secrets, in the places where people put copies.  searched: whether those were read to
    the end.
    """

    pairs: Mapping[str, str]
    counts: Mapping[str, int]
    kubeconfigs: Mapping[str, Kubeconfig]
    authority: str
    accounts: Mapping[str, str]
    pair: tuple[str, bool, bool] = ("", False, False)
    secrets: tuple[SecretFile, ...] = ()
    searched: bool = True


def keys_of(raw: Mapping[str, Any]) -> MachineKeys:
    """Read what machine/keys.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    return MachineKeys(
        pairs=raw["pairs"],
        counts=raw["counts"],
        kubeconfigs={path: _kubeconfig(path, one) for path, one in raw["kubeconfigs"].items()},
        authority=raw["authority"],
        accounts=raw["accounts"],
        pair=(raw["pair"]["link"], raw["pair"]["certificate"], raw["pair"]["key"]),
        secrets=tuple(
            SecretFile(path, what, int(mode), int(owner), bool(readable), frozenset(digests))
            for path, what, mode, owner, readable, digests in raw["secrets"]["files"]
        ),
        searched=raw["secrets"]["whole"],
    )


def _kubeconfig(path: str, one: Mapping[str, str]) -> Kubeconfig:
    try:
        held = certificate_of(path, one["certificate"]) if one["certificate"] else None
    except ValueError:  # what it holds is no certificate, which is a finding and not the machine's fault
        held = None
    try:
        form = yaml.safe_load(one["form"]) or {}
    except yaml.YAMLError:
        form = {}
    return Kubeconfig(one["server"], one["authority"], held, form if isinstance(form, dict) else {})
