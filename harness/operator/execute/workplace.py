"""The files of a running operation: an inventory that ssh can use, variables, keys that it takes, and the state."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput
from harness.files import write_atomically
from harness.kube.tunnels import Tunnels
from harness.machines.access import control_directory, ssh_options
from harness.machines.runner.given import PlaybookInputs
from harness.operator.execute.folder import KEY_FILE, OperationFolder
from harness.operator.execute.inputs import KUBECONFIG
from harness.operator.execute.product import variables_of

SSH_PORT = 22  # where an inventory names none


class Workplace:
    """The folder of one run of an executor.

    snapshot: the file of etcd's snapshot, if it lies elsewhere.
    state: the folder of what the playbooks keep.  log: all that Ansible prints.  events: the playbook's failures.
    """

    def __init__(self, path: Path, snapshot: Path | None = None) -> None:
        self._snapshot = snapshot or path / "etcd-snapshot.db"
        self.path, self.state = path, path / "state"
        self.log, self.events = path / "ansible.log", path / "failures.jsonl"

    def prepare(self, folder: OperationFolder, kubeconfig: Path | None) -> PlaybookInputs:
        """Write all files; return what the playbook is given.

        Args:
            kubeconfig: of the infra cluster, through whose API machines are reached that are not reached directly.

        Raises:
            BadInput: a key is missing, or there is no way to a machine.
        """
        for made in (self.path, self.state, self.path / "keys"):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        tunnels = self._tunnels(folder, kubeconfig)
        for name, said in folder.hosts.items():
            if KEY_FILE in said:
                self._with_key(name, said, folder, tunnels if name in folder.through else None)
        kept = {
            "cluster_kubeconfig_path": str(self.state / KUBECONFIG),
            "cluster_etcd_snapshot_path": str(self._snapshot),
        }
        given = variables_of(folder.product, folder.operation, {**folder.variables, **kept})
        hosts, variables = self.path / "hosts.yml", self.path / "extra-vars.yml"
        write_atomically(hosts, yaml.safe_dump(folder.inventory, sort_keys=False, width=200))
        write_atomically(variables, yaml.safe_dump(given, width=200), mode=0o600)
        return PlaybookInputs(
            hosts=hosts,
            variables=variables,
            events=self.events,
            control=control_directory(folder.job, folder.namespace),
            facts=f"{folder.namespace}-{folder.job}-",
            machines={_where(said): name for name, said in folder.hosts.items()},
            tunnels=tunnels,
        )

    def kept(self) -> dict[str, bytes]:
        """Return what the playbooks have kept, by the file's name."""
        found = (path for path in sorted(self.state.iterdir()) if path.is_file() and path.name.startswith(KUBECONFIG))
        return {path.name: path.read_bytes() for path in found}

    def _with_key(self, name: str, said: dict[str, Any], folder: OperationFolder, tunnels: Path | None) -> None:
        """Have a machine reached with a copy of its key that nobody else can read: ssh refuses any other."""
        source, key = folder.path / str(said[KEY_FILE]), self.path / "keys" / name
        try:
            write_atomically(key, source.read_bytes(), mode=0o600)
        except OSError as error:
            raise BadInput(
                f"the SSH key of {name} cannot be read: {source}: {error.strerror}",
                hint="put the machine's private key there; in a pod it comes from the Secret of the Machine's keyRef",
            ) from error
        options = ssh_options(key, through=tunnels)
        said |= {KEY_FILE: str(key), "ansible_ssh_common_args": shlex.join(options[2:])}

    def _tunnels(self, folder: OperationFolder, kubeconfig: Path | None) -> Path | None:
        """Write down how machines are reached through the infra cluster's API; None where all are reached directly."""
        if not folder.through:
            return None
        if kubeconfig is None:
            raise BadInput(
                f"{', '.join(folder.through)}: reached through the infra cluster's API, and no kubeconfig leads to it",
                hint="pass --kubeconfig FILE, or remove the machines from `through` in operation.json",
            )
        instances = {_where(folder.hosts[name])[0]: instance for name, instance in folder.through.items()}
        path = self.path / "tunnels.json"
        Tunnels(kubeconfig.absolute(), None, folder.namespace, instances, self.path / "tunnels.log").save(path)
        return path


def _where(said: dict[str, Any]) -> tuple[str, int]:
    return str(said.get("ansible_host", "")), int(said.get("ansible_port", SSH_PORT))
