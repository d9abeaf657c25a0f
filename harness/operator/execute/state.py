"""What playbooks keep of a cluster "on the controller": beside the kubeconfig while they run, in a Secret between.

That is the kubeconfig itself, how machines join, the CA and the client of an external etcd, and the access of drains.
A playbook that finds none of it makes it anew from the control plane; an etcd that lost its first member cannot.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InfraRetriable
from harness.files import write_atomically
from harness.kube.client import ApiFailure, Cluster
from harness.kube.failures import Json
from harness.kube.resources import SECRET

KUBECONFIG = "kubeconfig"  # the file that the playbooks are told; all else is named after it


@dataclass(frozen=True)
class StateSecret:
    """The Secret of a cluster's state."""

    cluster: Cluster
    namespace: str
    name: str

    def restore(self, folder: Path) -> None:
        """Write what is kept into a folder.

        Raises:
            InfraRetriable: there is no such Secret.
        """
        for name, content in (self._found().get("data") or {}).items():
            write_atomically(folder / name, base64.b64decode(content), mode=0o600)

    def save(self, files: Mapping[str, bytes]) -> bool:
        """Keep these files and no others; tell whether anything had to be written.

        Raises:
            InfraRetriable: there is no such Secret.  ApiFailure, Unreachable: it could not be written.
        """
        wanted = {name: base64.b64encode(content).decode() for name, content in sorted(files.items())}
        for last in (False, True):
            found = self._found()
            if (found.get("data") or {}) == wanted:
                return False
            try:
                self.cluster.replace(SECRET, {**found, "data": wanted})
                break
            except ApiFailure as failure:
                if last or not failure.conflict:
                    raise
        return True

    def _found(self) -> Json:
        found = self.cluster.get(SECRET, self.name, self.namespace)
        if found is None:
            raise InfraRetriable(
                f"Secret {self.name}, which keeps what the playbooks need of the cluster, is gone",
                hint="the operation is repeated, and the Secret made anew",
            )
        return found


def files_in(folder: Path) -> dict[str, bytes]:
    """Return what playbooks have put into a folder, by name."""
    found = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name.startswith(KUBECONFIG))
    return {path.name: path.read_bytes() for path in found}
