"""Inputs of an operation: what it is given, and the folder of files that its executor starts from.

hosts.yml         the inventory; paths of keys are relative to the folder
extra-vars.yml    variables of the playbooks
product.yml       the product file of playbooks that are not vmatrix's own, if there is one
operation.json    what is done, to which cluster, how long it may take, and which machines are not reached directly
keys/SECRET/KEY   private SSH keys
authority/        the CAs that a cluster is begun with, or that the executor signs with, as in kubeadm's folder
etcd-client/      ca.crt, client.crt and client.key, by which API servers ask an EtcdCluster
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.errors import BadInput
from harness.files import read_text
from harness.kube.failures import Json
from harness.machines.inventory import GROUPS
from harness.operator.api.etcd import OperationSnapshot
from harness.operator.api.machine import KeyRef
from harness.operator.api.resources import CLUSTER_LABEL, GROUP, OPERATION_LABEL
from harness.operator.decide.desired import Host
from harness.operator.decide.product_file import KEY, KnownProduct, read_product

ADOPT = "adopt"  # the operation that takes over a cluster
BACKUP = "backup"  # the operation that takes a snapshot of etcd
RESET = "reset"  # the operation after which nothing is kept of a cluster
KUBECONFIG = "kubeconfig"  # the file that the playbooks are told to keep; all else that they keep is named after it
SEQUENCE_LABEL, ATTEMPT_LABEL = f"{GROUP}/sequence", f"{GROUP}/attempt"


@dataclass(frozen=True)
class Execution:
    """One attempt at one operation.

    entry: the playbook.  hosts: reached at their addresses where they have no `through`.
    image: of the executor.  digest: of everything that is applied.
    variables: of the playbooks, without the paths of files that they keep.
    deadline_seconds: for all of it, from the Job's start on.
    snapshot: of etcd, which it takes or restores; its claim is mounted.
    product: whose playbook it is; None: vmatrix's own.
    authority: files of the CAs that it hands out or signs with, each with its Secret and the key of that.
    etcd_client: the Secret with a certificate by which API servers ask an EtcdCluster, "" for none.
    """

    cluster: str
    namespace: str
    sequence: int
    operation: str
    entry: str
    hosts: tuple[Host, ...]
    image: str
    deadline_seconds: int
    digest: str
    attempt: int = 1
    variables: Mapping[str, Any] = field(default_factory=dict)
    snapshot: OperationSnapshot | None = None
    product: KnownProduct | None = None
    authority: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    etcd_client: str = ""

    @property
    def job(self) -> str:
        """Return the name of the Job, which is that of its inputs' ConfigMap as well."""
        return job_name(self.cluster, self.sequence, self.operation, self.attempt)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of everything that is made for it."""
        numbers = {SEQUENCE_LABEL: str(self.sequence), ATTEMPT_LABEL: str(self.attempt)}
        return {CLUSTER_LABEL: self.cluster, OPERATION_LABEL: self.operation, **numbers}


def key_file(key: KeyRef) -> str:
    """Return where a machine's SSH key lies below the folder of an operation's inputs."""
    return f"keys/{key.name}/{key.key}"


def job_name(cluster: str, sequence: int, operation: str, attempt: int = 1) -> str:
    """Return the name of an attempt's Job; the same attempt has no other, so it is never made twice."""
    name = f"{cluster}-{sequence}-{operation}"
    return name if attempt == 1 else f"{name}-{attempt}"


def executor_name(cluster: str) -> str:
    """Return the name of the ServiceAccount, Role and RoleBinding of a cluster's executors."""
    return f"{cluster}-executor"


def state_name(cluster: str) -> str:
    """Return the name of the Secret with what playbooks keep of a cluster."""
    return f"{cluster}-state"


def log_name(job: str) -> str:
    """Return the name of the ConfigMap that keeps a Job's log."""
    return f"{job}-log"


HOSTS, VARIABLES, OPERATION = "hosts.yml", "extra-vars.yml", "operation.json"
PRODUCT = KEY
AUTHORITY = "authority"
ETCD_CLIENT = "etcd-client"
CLIENT_FILES = {"ca.crt": "ca.crt", "client.crt": "tls.crt", "client.key": "tls.key"}  # each with its key of the Secret
KEY_FILE = "ansible_ssh_private_key_file"
WORDS = ("cluster", "namespace", "job", "sequence", "operation", "entry")  # of operation.json
PAGE = "docs/operator/troubleshooting.md"
HINT = f"`kubectl get configmap JOB -o yaml` shows these files of an operation; {PAGE} explains them"


@dataclass(frozen=True)
class OperationFolder:
    """What the files say. through: VirtualMachineInstances by inventory name.  snapshot: which it takes or restores."""

    path: Path
    cluster: str
    namespace: str
    job: str
    sequence: str
    operation: str
    entry: str
    deadline_seconds: float
    through: Mapping[str, str]
    inventory: dict[str, Any]
    variables: dict[str, Any]
    snapshot: OperationSnapshot | None = None
    product: KnownProduct | None = None

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """Return each machine's variables, by name."""
        hosts: dict[str, dict[str, Any]] = self.inventory["all"]["hosts"]
        return hosts

    @staticmethod
    def load(path: Path) -> OperationFolder:
        """Read a folder.

        Raises:
            BadInput: a file is missing or does not say what it should.
        """
        told, inventory, variables = (_mapping(path / name) for name in (OPERATION, HOSTS, VARIABLES))
        whole = inventory.get("all")
        hosts = whole.get("hosts") if isinstance(whole, dict) else None
        if not isinstance(hosts, dict) or not hosts:
            raise BadInput(f"{path / HOSTS}: all.hosts has no machine", hint=HINT)
        for name, variables_of_host in hosts.items():
            if variables_of_host is not None and not isinstance(variables_of_host, dict):
                raise BadInput(f"{path / HOSTS}: all.hosts.{name} is not a mapping of variables", hint=HINT)
        inventory["all"]["hosts"] = {name: dict(variables_of_host or {}) for name, variables_of_host in hosts.items()}
        try:
            words: dict[str, Any] = {key: str(told[key]) for key in WORDS}
            seconds, through = float(told["deadlineSeconds"]), dict(told.get("through") or {})
            if not 0 < seconds < math.inf:
                raise ValueError(f"deadlineSeconds is {seconds}; use a number of seconds")
            snapshot = OperationSnapshot.model_validate(told["snapshot"]) if "snapshot" in told else None
        except KeyError as missing:
            raise BadInput(f"{path / OPERATION}: {missing} is missing", hint=HINT) from missing
        except (TypeError, ValueError) as error:
            raise BadInput(f"{path / OPERATION}: {error}", hint=HINT) from error
        if strange := sorted(set(through) - set(hosts)):
            raise BadInput(f"{path / OPERATION}: through names {', '.join(strange)}, not in {HOSTS}", hint=HINT)
        about: dict[str, Any] = {**words, "deadline_seconds": seconds, "through": through, "snapshot": snapshot}
        about["product"] = _product(path / PRODUCT)
        return OperationFolder(path, **about, inventory=inventory, variables=variables)


def _product(file: Path) -> KnownProduct | None:
    if not os.path.lexists(file):
        return None
    product, mistakes = read_product(read_text(file), file.name)
    if product is None:
        raise BadInput("; ".join(mistake.text for mistake in mistakes), hint=HINT)
    return product


def _mapping(file: Path) -> dict[str, Any]:
    mapping = yaml_text.document(read_text(file), file, hint=HINT)
    if not isinstance(mapping, dict):
        raise BadInput(f"{file}: it is not a mapping", hint=HINT)
    return mapping


def files_of(execution: Execution) -> dict[str, str]:
    """Return the files of an operation's folder but for its keys."""
    product = execution.product
    names: dict[str, tuple[str, ...]] = {
        group: product.groups(group) if product is not None else (group,) for group in GROUPS
    }
    groups: dict[str, dict[str, Json]] = {
        name: {"hosts": {}} for groups_of_product in names.values() for name in groups_of_product
    }
    hosts: dict[str, Json] = {}
    for host in execution.hosts:
        where = {"ansible_host": host.address, "ansible_port": host.port, "ansible_user": host.user}
        hosts[host.name] = {**where, KEY_FILE: key_file(host.key)}
        for name in (name for group in host.groups for name in names.get(group, (group,))):
            groups.setdefault(name, {"hosts": {}})["hosts"][host.name] = {}
    operation = {
        **{word: getattr(execution, word) for word in WORDS},
        "attempt": execution.attempt,
        "deadlineSeconds": execution.deadline_seconds,
        "digest": execution.digest,
        "through": {host.name: host.through for host in execution.hosts if host.through},
    }
    if execution.snapshot is not None:
        operation["snapshot"] = execution.snapshot.model_dump(mode="json", by_alias=True)
    return {
        HOSTS: yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}, sort_keys=False, width=200),
        VARIABLES: yaml.safe_dump(dict(execution.variables), sort_keys=True, width=200),
        OPERATION: json.dumps(operation, indent=2) + "\n",
        **({PRODUCT: product.text} if product is not None else {}),
    }
