"""A client of a guest cluster's API, from the kubeconfig in its Secret, over the way that its machines are reached."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.forwarder import forwarding
from harness.kube.informer import Key
from harness.kube.objects import dig
from harness.kube.resources import SECRET
from harness.machines.ways import through
from harness.operator.api.resources import MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.private import PrivateFiles, write_private
from harness.operator.controllers.probe_way import infra_api

CONTENT = "value"  # of Cluster API's Secrets


class NoKubeconfig(InfraError):
    """There is no Secret with a kubeconfig of the guest cluster."""


class GuestAccess:
    """Opens guest clusters."""

    def __init__(self, context: OperatorContext, files: PrivateFiles) -> None:
        self._context = context
        self._files = files
        self._api = infra_api(context)
        self._machines = context.informers.of(MACHINE)

    @contextmanager
    def open(self, key: Key) -> Iterator[Cluster]:
        """Give a client of a Cluster's guest; what it is reached through ends with the body.

        Raises:
            NoKubeconfig: see there.  BadInput: the kubeconfig cannot be used.
        """
        content = self._kubeconfig(key)
        instances = self._instances(key)
        with ExitStack() as held, self._files.use() as folder:
            path = write_private(folder / "kubeconfig", content)
            if instances and self._api is not None:
                tunnels = self._api.tunnels(key[0], instances, self._context.options.stretch)
                path = through(path, held.enter_context(forwarding(tunnels)).url, folder / "proxied")
            guest = Cluster.from_kubeconfig(path)
            path.unlink()  # it was read, and holds a key
            (folder / "kubeconfig").unlink(missing_ok=True)
            yield guest

    def _kubeconfig(self, key: Key) -> bytes:
        namespace, name = key[0], f"{key[1]}-kubeconfig"
        encoded = dig(self._context.cluster.get(SECRET, name, namespace), "data", CONTENT)
        if not encoded:
            raise NoKubeconfig(f"there is no Secret {name} with a kubeconfig as {CONTENT}")
        return base64.b64decode(encoded)

    def _instances(self, key: Key) -> dict[str, str]:
        """Return the instances of a cluster's machines by address, of those that are reached through the API."""
        instance = "virtualMachineInstance"
        own = (m for m in self._machines.list(key[0]) if dig(m, "spec", "claim", "cluster") == key[1])
        return {m["spec"]["address"]: m["spec"]["through"][instance] for m in own if dig(m, "spec", "through")}
