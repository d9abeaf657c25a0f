"""Files of a machine, its listeners, keys and kubeconfigs, as machine/files.py and machine/keys.py print them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import yaml

from harness.validate.facts.node import Certificate, certificate_of


@dataclass(frozen=True)
class FileRights:
    """A file, a socket or a folder: its permissions, its owner (numbers), and whether a private key is in it.

    kind: file, socket, folder, data (a folder of etcd's data), above (a folder that those are in), or place: what root
    runs, and where that is.
    """

    kind: str
    mode: int
    owner: int
    group: int
    secret: bool


@dataclass(frozen=True)
class RunningFile:
    """The file that a process runs, and whether it is the one that started it and the one that a login finds.

    None: there is no such file to compare with.
    """

    runs: str
    own: bool | None
    found: str
    same: bool | None


@dataclass(frozen=True)
class OpenSocket:
    """A program that listens on TCP; `address` is "*" for all."""

    address: str
    port: int
    program: str

    @property
    def local(self) -> bool:
        """Tell whether only the machine itself reaches it."""
        return self.address != "*" and ip_address(self.address.partition("%")[0]).is_loopback


@dataclass(frozen=True)
class Room:
    """A folder that programs write to, or a mount below one.

    closed: why nothing can be written, "" where something can.  space, files: which shares are free.
    locked: files in it that cannot be changed.  runs: whether programs are run from there.  noexec: whether that is
    forbidden.  passing: whether the next boot empties it, although it has to last.
    """

    closed: str
    space: float
    files: float
    locked: tuple[str, ...] = ()
    runs: bool = False
    noexec: bool = False
    passing: bool = False


@dataclass(frozen=True)
class MachineFiles:
    """One machine.

    newer: by program, by how many seconds each file that it read when it started is newer than the process.
    os_release: ID and VERSION_ID.
    written: folders that programs write to, by path.
    """

    files: Mapping[str, FileRights]
    newer: Mapping[str, Mapping[str, float]]
    executables: Mapping[str, RunningFile]
    os_release: Mapping[str, str]
    listening: tuple[OpenSocket, ...]
    written: Mapping[str, Room]


def files_of(raw: Mapping[str, Any]) -> MachineFiles:
    """Read what machine/files.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    return MachineFiles(
        files={path: FileRights(*row) for path, row in raw["files"].items()},
        newer=raw["newer"],
        executables={
            name: RunningFile(executable["runs"], executable["own"], executable["found"] or "", executable["same"])
            for name, executable in raw["executables"].items()
        },
        os_release=raw["os_release"],
        listening=tuple(OpenSocket(*row) for row in raw["listening"]),
        written={path: Room(**{**row, "locked": tuple(row["locked"])}) for path, row in raw["written"].items()},
    )


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
        kubeconfigs={path: _kubeconfig(path, content) for path, content in raw["kubeconfigs"].items()},
        authority=raw["authority"],
        accounts=raw["accounts"],
        pair=(raw["pair"]["link"], raw["pair"]["certificate"], raw["pair"]["key"]),
        secrets=tuple(
            SecretFile(path, what, int(mode), int(owner), bool(readable), frozenset(digests))
            for path, what, mode, owner, readable, digests in raw["secrets"]["files"]
        ),
        searched=raw["secrets"]["whole"],
    )


def _kubeconfig(path: str, content: Mapping[str, str]) -> Kubeconfig:
    try:
        held = certificate_of(path, content["certificate"]) if content["certificate"] else None
    except ValueError:  # what it holds is not a certificate, which is a finding and not the machine's fault
        held = None
    try:
        form = yaml.safe_load(content["form"]) or {}
    except yaml.YAMLError:
        form = {}
    return Kubeconfig(content["server"], content["authority"], held, form if isinstance(form, dict) else {})
