"""The files of a running operation: an inventory that ssh can use, variables, keys that it takes, and the state."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput
from harness.files import write_atomically
from harness.kube.certificates import first
from harness.machines.reach.portforward import Tunnels
from harness.machines.reach.ssh import control_directory, ssh_options
from harness.machines.runner.call import AnsibleCall, PlaybookInputs
from harness.operator.api.rules import EXTERNAL_CA
from harness.operator.decide.product_file import KnownProduct, phase_of
from harness.operator.execute.inputs import AUTHORITY, ETCD_CLIENT, KEY_FILE, KUBECONFIG, OperationFolder
from harness.paths import packaged_dir
from harness.spec.models import AnsibleOptions
from harness.spec.variables import in_both

OURS = "playbooks"  # the folder of those that ship with vmatrix


def playbook_of(product: KnownProduct | None, entry: str, root: Path | None) -> Path:
    """Return where a playbook is.

    Args:
        root: what a product's directory is relative to (None: where this program runs), or the folder of vmatrix's own
            playbooks (None: those that ship with it).
    """
    if product is None:
        return (root if root is not None else packaged_dir() / OURS) / entry
    return directory_of(product, root) / entry


def directory_of(product: KnownProduct, root: Path | None) -> Path:
    """Return the folder that a product's paths are relative to."""
    return (root if root is not None else Path.cwd()) / product.product.directory


def call_of(product: KnownProduct | None, operation: str, root: Path | None) -> AnsibleCall:
    """Return how Ansible is called for an operation: as product.yml asks for, or as for vmatrix's own playbooks."""
    if product is None:
        return AnsibleCall()
    options = product.product.ansible or AnsibleOptions()
    directory = directory_of(product, root)
    return AnsibleCall(
        programs=(directory / options.path).expanduser() if options.path is not None else AnsibleCall().programs,
        config=directory / options.config if options.config is not None else None,
        inventories=tuple(directory / name for name in options.inventories),
        arguments=(
            *(("--become",) if options.become else ()),
            *options.args,
            *product.product.phases[phase_of(operation)].args,
        ),
    )


def variables_of(product: KnownProduct | None, operation: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of an operation: those of the product below those that are given, in its words as well."""
    if product is None:
        return dict(own)
    phase = product.product.phases[phase_of(operation)]
    return in_both(product.product.variables, {**product.product.vars, **phase.vars, **own})


SSH_PORT = 22  # where an inventory names none


class Workplace:
    """The folder of one run of an executor.

    snapshot: the file of etcd's snapshot, if it lies elsewhere.
    state: the folder of what the playbooks keep.  signing: that of CAs, for as long as it runs.
    log: all that Ansible prints.  events: the playbook's failures.
    """

    def __init__(self, path: Path, snapshot: Path | None = None) -> None:
        self._snapshot = snapshot or path / "etcd-snapshot.db"
        self.path, self.state, self.signing = path, path / "state", path / "authority"
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
        for name, variables_of_host in folder.hosts.items():
            if KEY_FILE in variables_of_host:
                self._with_key(name, variables_of_host, folder, tunnels if name in folder.through else None)
        kept = {
            "cluster_kubeconfig_path": str(self.state / KUBECONFIG),
            "cluster_etcd_snapshot_path": str(self._snapshot),
            "cluster_etcd_drill_path": str(self.path / "drill"),
            "cluster_etcd_clone_path": str(self.path / "clone.db"),  # not where snapshots are kept
        }
        if (folder.path / AUTHORITY).is_dir():
            kept |= self._authority(folder)
        if (folder.path / ETCD_CLIENT).is_dir():
            kept["cluster_etcd_client_path"] = str(folder.path / ETCD_CLIENT)
        playbook_variables = variables_of(folder.product, folder.operation, {**folder.variables, **kept})
        hosts, variables = self.path / "hosts.yml", self.path / "extra-vars.yml"
        write_atomically(hosts, yaml.safe_dump(folder.inventory, sort_keys=False, width=200))
        write_atomically(variables, yaml.safe_dump(playbook_variables, width=200), mode=0o600)
        return PlaybookInputs(
            hosts=hosts,
            variables=variables,
            events=self.events,
            control=control_directory(folder.job, folder.namespace),
            facts=f"{folder.namespace}-{folder.job}-",
            machines={_where(variables_of_host): name for name, variables_of_host in folder.hosts.items()},
            tunnels=tunnels,
        )

    def _authority(self, folder: OperationFolder) -> dict[str, str]:
        """Return the variable that names copies of the CAs: for machines, or to sign with.

        A chain loses all but its first certificate, the CA: on a machine the others would be trusted, too, and whoever
        has a certificate of another CA of the same issuer would be somebody in this cluster.
        """
        source = folder.path / AUTHORITY
        for path in sorted(source.rglob("*")):
            if path.is_file() and not any(part.startswith("..") for part in path.relative_to(source).parts):
                copy = self.signing / path.relative_to(source)
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomically(copy, _alone(path) if path.suffix == ".crt" else path.read_bytes(), mode=0o600)
        outside = folder.variables.get(EXTERNAL_CA) is True
        return {"cluster_external_ca_folder" if outside else "cluster_authority_path": str(self.signing)}

    def forget(self) -> None:
        """Remove the keys of the CAs."""
        shutil.rmtree(self.signing, ignore_errors=True)

    def kept(self) -> dict[str, bytes]:
        """Return what the playbooks have kept, by the file's name."""
        kept_files = (
            path for path in sorted(self.state.iterdir()) if path.is_file() and path.name.startswith(KUBECONFIG)
        )
        return {path.name: path.read_bytes() for path in kept_files}

    def _with_key(
        self, name: str, variables_of_host: dict[str, Any], folder: OperationFolder, tunnels: Path | None
    ) -> None:
        """Have a machine reached with a copy of its key that nobody else can read: ssh refuses any other."""
        source, key = folder.path / str(variables_of_host[KEY_FILE]), self.path / "keys" / name
        try:
            write_atomically(key, source.read_bytes(), mode=0o600)
        except OSError as error:
            raise BadInput(
                f"the SSH key of {name} cannot be read: {source}: {error.strerror}",
                hint="put the machine's private key there; in a pod it comes from the Secret of the Machine's keyRef",
            ) from error
        options = ssh_options(key, through=tunnels)
        variables_of_host |= {KEY_FILE: str(key), "ansible_ssh_common_args": shlex.join(options[2:])}

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


def _alone(chain: Path) -> bytes:
    try:
        return first(chain.read_bytes())
    except ValueError as error:
        raise BadInput(f"{chain} is not a certificate as PEM", hint="put the CA's certificate there") from error


def _where(variables_of_host: dict[str, Any]) -> tuple[str, int]:
    return str(variables_of_host.get("ansible_host", "")), int(variables_of_host.get("ansible_port", SSH_PORT))
