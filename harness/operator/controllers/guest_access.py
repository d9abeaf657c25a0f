"""A client of a guest cluster's API, from the kubeconfig in its Secret, over the way that its machines are reached."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.errors import InfraError
from harness.files import write_atomically
from harness.kube.client import Cluster
from harness.kube.forwarder import forwarding
from harness.kube.informer import Key
from harness.kube.objects import dig
from harness.kube.resources import SECRET
from harness.machines.private import PrivateFiles
from harness.machines.ways import through
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.claimed import claimed_by
from harness.operator.controllers.kubeconfig_secret import KEY, secret_name
from harness.operator.controllers.probe import InfraApi


class NoKubeconfig(InfraError):
    """There is no Secret with a kubeconfig of the guest cluster."""


class GuestAccess:
    """Opens guest clusters."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._stretch = context.options.stretch
        self._api = InfraApi.of(context)
        self._machines = context.informers.of(MACHINE)
        self._files = PrivateFiles()
        context.on_stop(self._files.close)

    @contextmanager
    def open(self, key: Key) -> Iterator[Cluster]:
        """Give a client of a Cluster's guest; what it is reached through ends with the body.

        Raises:
            NoKubeconfig: see there.  BadInput: the kubeconfig cannot be used.
        """
        name = secret_name(key[1])
        encoded = dig(self._cluster.get(SECRET, name, key[0]), "data", KEY)
        if not encoded:
            raise NoKubeconfig(f"there is no Secret {name} with a kubeconfig as {KEY}")
        own = (DeclaredMachine.model_validate(machine) for machine in claimed_by(self._machines, key))
        instances = {machine.address: machine.instance for machine in own if machine.instance and machine.address}
        with ExitStack() as held:
            with self._files.use() as folder:  # which holds a key, only until it was read
                path = folder / "kubeconfig"
                write_atomically(path, base64.b64decode(encoded), mode=0o600)
                if instances and self._api is not None:
                    tunnels = self._api.tunnels(key[0], instances, self._stretch)
                    path = through(path, held.enter_context(forwarding(tunnels)).url, folder / "proxied")
                guest = Cluster.from_kubeconfig(path)
            yield guest
