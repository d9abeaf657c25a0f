"""An external CA: how a cell asks for it, and what its machines show of it, as machine/external_ca.py prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.facts.node import Certificate, certificate_of


@dataclass(frozen=True)
class MachineAuthority:
    """One machine.

    authorities: the CAs' certificates, by path.  keys: how many private keys were found in files.
    fits: paths of the CAs whose key a file holds, by the file.
    issued: certificates in files of the cluster, in kubeconfigs and of the kubelet, by path.
    unread: certificates that cannot be read, and why, by path.
    """

    authorities: Mapping[str, Certificate]
    keys: int
    fits: Mapping[str, tuple[str, ...]]
    issued: Mapping[str, Certificate]
    unread: Mapping[str, str]


def authority_of(raw: Mapping[str, Any]) -> MachineAuthority:
    """Read what machine/external_ca.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    read: dict[str, dict[str, Certificate]] = {"authorities": {}, "issued": {}}
    unread: dict[str, str] = {}
    for kind, there in read.items():
        for path, pem in raw[kind].items():
            try:
                there[path] = certificate_of(path, pem)
            except ValueError as error:  # a finding, and not the machine's fault
                unread[path] = str(error)
    fits = {path: tuple(names) for path, names in raw["fits"].items()}
    return MachineAuthority(read["authorities"], int(raw["keys"]), fits, read["issued"], unread)
