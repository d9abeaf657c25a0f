"""Ansible action: sign a machine's requests on the controller, with CAs whose keys stay there.

The CAs are files of a folder, which are made where they are missing for the control plane that begins a cluster, and
never for a machine that joins one. A request is signed only if it is for what kubeadm wants a certificate of this
machine for; its alternative names are kept. Needs the package cryptography, which ansible-core requires.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLUSTER, FRONT_PROXY, ETCD = "ca", "front-proxy-ca", "etcd/ca"
AUTHORITIES = {CLUSTER: "kubernetes", FRONT_PROXY: "front-proxy-ca", ETCD: "etcd-ca"}  # and their names, as kubeadm's
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
ADMINS = "kubeadm:cluster-admins"
YEAR, TEN_YEARS = 8760, 87600  # hours: kubeadm's defaults
BACKDATED = timedelta(minutes=5)  # for a machine's clock that is behind
KEY_BITS = 2048
KUBELET = "kubelet.conf"


@dataclass(frozen=True)
class Purpose:
    """Who signs, for whom (with {machine} in it), in which group, and for which usages.

    grouped: whether every kubeadm asks for the group; otherwise only some minors do.
    """

    authority: str
    name: str
    group: str = ""
    usages: tuple[x509.ObjectIdentifier, ...] = (CLIENT,)
    grouped: bool = True


# kubernetes.io, "PKI certificates and requirements"
PURPOSES: Mapping[str, Purpose] = {
    "apiserver": Purpose(CLUSTER, "kube-apiserver", usages=(SERVER,)),
    "apiserver-kubelet-client": Purpose(CLUSTER, "kube-apiserver-kubelet-client", ADMINS, grouped=False),
    "front-proxy-client": Purpose(FRONT_PROXY, "front-proxy-client"),
    "apiserver-etcd-client": Purpose(ETCD, "kube-apiserver-etcd-client"),
    "etcd/healthcheck-client": Purpose(ETCD, "kube-etcd-healthcheck-client"),
    "etcd/server": Purpose(ETCD, "{machine}", usages=(SERVER, CLIENT)),
    "etcd/peer": Purpose(ETCD, "{machine}", usages=(SERVER, CLIENT)),
    "admin.conf": Purpose(CLUSTER, "kubernetes-admin", ADMINS),
    "super-admin.conf": Purpose(CLUSTER, "kubernetes-super-admin", "system:masters"),
    "controller-manager.conf": Purpose(CLUSTER, "system:kube-controller-manager"),
    "scheduler.conf": Purpose(CLUSTER, "system:kube-scheduler"),
    KUBELET: Purpose(CLUSTER, "system:node:{machine}", "system:nodes"),
}


class Refused(Exception):
    """A request is not for what it may be for, or a CA cannot be used."""


@dataclass(frozen=True)
class Authority:
    """A CA with its key."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


class ActionModule(ActionBase):  # type: ignore[misc]
    """Return the certificates of the CAs of `folder`, and what they sign of `requests` (PEM by kubeadm's names)."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "folder": {"type": "str", "required": True},
                "machine": {"type": "str", "required": True},
                "control_plane": {"type": "bool", "required": True},
                "requests": {"type": "dict", "required": True},
                "validity": {"type": "str", "default": ""},
                "ca_validity": {"type": "str", "default": ""},
            },
        )
        result |= {"changed": bool(given["requests"]), "authorities": {}, "certificates": {}}
        if self._task.check_mode or not given["requests"]:
            return result
        folder = Path(given["folder"]).expanduser()
        try:
            authorities = all_authorities(folder, hours(given["ca_validity"], TEN_YEARS), begins=given["control_plane"])
            result["certificates"] = all_signed(given, authorities)
        except (OSError, ValueError, Refused) as error:
            raise AnsibleActionFail(f"the CA on the controller ({folder}) signs nothing: {error}") from error
        result["authorities"] = {name: pem(one.certificate) for name, one in authorities.items()}
        return result


def all_authorities(folder: Path, valid: timedelta, *, begins: bool) -> dict[str, Authority]:
    """Return the CAs of the folder by name.

    Args:
        valid: for how long CAs are valid that are made.
        begins: whether the machine begins a cluster, which has none yet.

    Raises:
        Refused: the cluster has CAs already, and the folder lacks one; or one of them cannot be used.
    """
    missing = [f"{folder / name}.key" for name in AUTHORITIES if not (folder / f"{name}.key").exists()]
    if missing and not begins:
        raise Refused(
            f"{', '.join(missing)} missing, and the cluster has CAs already:"
            " set cluster_external_ca_folder to the folder that the cluster began with"
        )
    with locked(folder):
        return {name: authority(folder, name, valid) for name in AUTHORITIES}


def all_signed(given: Mapping[str, Any], authorities: Mapping[str, Authority]) -> dict[str, str]:
    """Return the certificates for a machine's requests, by name.

    Raises:
        Refused: one of the requests is not for this machine, or not for what its name says.
    """
    machine, valid = given["machine"], hours(given["validity"], YEAR)
    for name in given["requests"]:
        if name not in PURPOSES or (name != KUBELET and not given["control_plane"]):
            raise Refused(f"{machine} asks for a certificate {name}, which is not for it")
    return {
        name: signed(authorities[PURPOSES[name].authority], name, request, machine, valid)
        for name, request in given["requests"].items()
    }


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one machine after the other look for the CAs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def hours(text: str, default: int) -> timedelta:
    """Return a validity such as 4392h."""
    return timedelta(hours=int(text.partition("h")[0]) if text else default)


def authority(folder: Path, name: str, valid: timedelta) -> Authority:
    """Return a CA of the folder; it is made if neither its key nor its certificate is there.

    Raises:
        Refused: only one of both is there, or they do not belong together.
    """
    files = {"key": folder / f"{name}.key", "certificate": folder / f"{name}.crt"}
    missing = [str(path) for path in files.values() if not path.exists()]
    if len(missing) == 1:
        raise Refused(f"{missing[0]} is missing beside the other half of the CA")
    if missing:
        made = new_authority(AUTHORITIES[name], valid)
        private = made.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        write(files["certificate"], pem(made.certificate))
        write(files["key"], private.decode())
        return made
    key = serialization.load_pem_private_key(files["key"].read_bytes(), password=None)
    certificate = x509.load_pem_x509_certificate(files["certificate"].read_bytes())
    if not isinstance(key, rsa.RSAPrivateKey):
        raise Refused(f"{files['key']} is no RSA key")
    if key.public_key() != certificate.public_key():
        raise Refused(f"{files['key']} is not the key of {files['certificate']}")
    return Authority(certificate, key)


def new_authority(name: str, valid: timedelta) -> Authority:
    """Make a CA as kubeadm does."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = datetime.now(UTC).replace(microsecond=0) - BACKDATED
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + BACKDATED + valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(made, key)


def signed(by: Authority, name: str, request: str, machine: str, valid: timedelta) -> str:
    """Return the certificate (PEM) for a request.

    Raises:
        Refused: the request is for another one than kubeadm wants this certificate for.
    """
    asked, purpose = x509.load_pem_x509_csr(request.encode()), PURPOSES[name]
    wanted_name, groups = purpose.name.format(machine=machine), [[purpose.group] if purpose.group else []]
    wanted = [{"CN": [wanted_name], "O": group} for group in (*groups, *([] if purpose.grouped else [[]]))]
    there: dict[str, list[str]] = {"CN": [], "O": []}
    for attribute in asked.subject:
        there.setdefault(attribute.rfc4514_attribute_name, []).append(str(attribute.value))
    if there not in wanted:
        raise Refused(f"the request {name} of {machine} is for {asked.subject.rfc4514_string()}")
    if not asked.is_signature_valid:
        raise Refused(f"the request {name} of {machine} is not signed with its own key")
    begins = datetime.now(UTC).replace(microsecond=0) - BACKDATED
    builder = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(by.certificate.subject)
        .public_key(asked.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(begins, by.certificate.not_valid_before_utc))
        .not_valid_after(min(begins + BACKDATED + valid, by.certificate.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purpose.usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()), critical=False)
    )
    if SERVER in purpose.usages:
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        builder = builder.add_extension(names.value, critical=False)
    return pem(builder.sign(by.key, hashes.SHA256()))


def key_usage(*, signs: bool) -> x509.KeyUsage:
    """Return what a key may be used for: that of a CA also signs certificates."""
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> str:
    """Return a certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def write(path: Path, content: str) -> None:
    """Write a private file at once."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
