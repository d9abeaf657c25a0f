"""What an infra cluster's provider can be asked. The harness never asks which provider it is on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.model import Access, Mirror


class Provider(Protocol):
    """One way to get an infra cluster with KubeVirt and CDI."""

    name: str

    def up(self) -> None:
        """Bring the infra cluster up; nothing to do when it already is.

        Raises:
            BadInput: the host lacks something (all of it at once).  InfraError: it did not come up.
        """

    def down(self) -> None:
        """Remove everything that `up` and its guests left, whatever state it is in. Idempotent."""

    def kubeconfig(self) -> Path:
        """Return the admin kubeconfig of the infra cluster."""

    def access(self) -> Access:
        """Return how this host reaches the infra's machines."""

    def guest_vars(self) -> Mapping[str, Any]:
        """Return the variables that the playbooks need because of how this infra's machines are made."""

    def spare_addresses(self, address: str) -> tuple[str, ...]:
        """Return ranges (FIRST-LAST) of the network of a machine with this address that no machine gets."""

    def mirror(self) -> Mirror:
        """Return where guests find binaries and images."""

    def describe(self) -> Mapping[str, Any]:
        """Return facts for a person: addresses, versions, processes, directories."""
