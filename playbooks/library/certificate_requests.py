#!/usr/bin/python
"""Ansible module: have this machine's certificates signed elsewhere, because the cluster's CA is external.

Without `certificates` it lets kubeadm make keys and requests, and returns the requests that nobody has signed yet. With
them, it puts keys, certificates and kubeconfigs where kubeadm looks for them. kubelet.conf waits in a folder of its
own, because it tells other playbooks that the machine has become a node. Keys never leave the machine.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: certificate_requests
short_description: Have this machine's certificates signed elsewhere
description:
  - Without O(certificates), makes keys and requests with kubeadm and returns those that are to be signed.
  - With O(certificates), installs them with their keys, and makes kubeconfigs.
options:
  config: {description: Configuration of kubeadm., type: str, required: true}
  folder: {description: Of the cluster's certificates., type: path, default: /etc/kubernetes/pki}
  control_plane:
    description: Whether the machine needs all certificates. Otherwise it needs that of its kubelet.
    type: bool
    required: true
  authorities: {description: Certificates (PEM) of CAs by name., type: dict, default: {}}
  certificates: {description: Certificates (PEM) by name of the request., type: dict}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Make keys and requests
  certificate_requests:
    config: "{{ lookup('rendered', 'kubeadm.yml.j2') }}"
    control_plane: true
"""

RETURN = r"""
requests: {description: Requests (PEM) by name., returned: without certificates, type: dict}
"""

CONFIGURATION = Path("/etc/kubernetes")
STAGED = CONFIGURATION / "external-ca"
KUBELET_KEYS = Path("/var/lib/kubelet/pki")
KUBEADM = "/usr/local/bin/kubeadm"
KUBELET = "kubelet.conf"
KIND = "kind: ClusterConfiguration\n"
ACCOUNTS = ("sa.key", "sa.pub")
CONFS = ("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf", KUBELET)
KEY = re.compile(r"^( *)client-key-data: *(\S+)$", re.MULTILINE)
CLUSTER = re.compile(r"^( *)server: .*$", re.MULTILINE)


class Trouble(Exception):
    """kubeadm makes no requests, or not those that belong to the certificates."""


def write(path: Path, content: str, mode: int) -> None:
    """Write a file at once."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def installed(folder: Path, *, control_plane: bool) -> bool:
    """Tell whether the machine has what it needs; the kubelet's file is the last one that is written."""
    there = (STAGED / KUBELET).exists() or (CONFIGURATION / KUBELET).exists()
    return there and (not control_plane or (folder / "apiserver.crt").exists())


def make(config: str, pending: Path, *, control_plane: bool) -> None:
    """Let kubeadm make keys and requests, all or none, and forget those that the machine has no use for."""
    STAGED.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=str(STAGED)))
    try:
        write(place / "kubeadm.yml", config, 0o600)
        words = ["--config", str(place / "kubeadm.yml"), "--cert-dir", str(place / "pki")]
        kubeadm("certs", "generate-csr", *words, "--kubeconfig-dir", str(place / "conf"))
        if control_plane:
            # beside a CA without its key, kubeadm init makes no keys for tokens
            own = config.replace(KIND, f"{KIND}certificatesDir: {place / 'pki'}\n")
            write(place / "accounts.yml", own, 0o600)
            kubeadm("init", "phase", "certs", "sa", "--config", str(place / "accounts.yml"))
        else:
            shutil.rmtree(place / "pki")
            for path in (place / "conf").iterdir():
                if not path.name.startswith(KUBELET):
                    path.unlink()
        os.rename(place, pending)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def kubeadm(*words: str) -> None:
    """Run kubeadm."""
    done = subprocess.run([KUBEADM, *words], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Trouble(f"kubeadm makes no requests: {(done.stderr.strip() or done.stdout.strip())[-500:]}")


def requests(pending: Path) -> dict[str, str]:
    """Return the requests by kubeadm's names, such as etcd/server and admin.conf."""
    found = {}
    for kind in ("pki", "conf"):
        for path in sorted((pending / kind).rglob("*.csr")):
            found[str(path.relative_to(pending / kind))[: -len(".csr")]] = path.read_text(encoding="utf-8")
    return found


def encoded(text: str) -> str:
    """Return a text as kubeconfigs have it."""
    return base64.b64encode(text.encode()).decode()


def kubeconfig(partial: str, authority: str, user: str) -> str:
    """Complete a kubeconfig of kubeadm's, which has neither a CA nor a certificate.

    Args:
        user: the lines that take the place of its key, without spaces before them.
    """
    key, server = KEY.search(partial), CLUSTER.search(partial)
    if not key or not server:
        raise Trouble("kubeadm has made a kubeconfig without a key or a server")
    lines = "\n".join(f"{key.group(1)}{line}" for line in user.splitlines())
    whole = partial.replace(key.group(0), lines)
    return whole.replace(
        server.group(0), f"{server.group(1)}certificate-authority-data: {encoded(authority)}\n{server.group(0)}"
    )


def install(pending: Path, folder: Path, authorities: dict[str, str], certificates: dict[str, str]) -> None:
    """Put everything where it belongs, the kubelet's file last, and forget the requests."""
    asked = requests(pending)
    if set(asked) != set(certificates):
        raise Trouble(f"certificates for {', '.join(sorted(certificates))}, asked were {', '.join(sorted(asked))}")
    for name in sorted(set(certificates) - set(CONFS)):
        write(folder / f"{name}.key", (pending / "pki" / f"{name}.key").read_text(encoding="utf-8"), 0o600)
        write(folder / f"{name}.crt", certificates[name], 0o644)
    if set(certificates) - set(CONFS):
        for name in ACCOUNTS:
            write(folder / name, (pending / "pki" / name).read_text(encoding="utf-8"), 0o600)
        for name, certificate in authorities.items():
            write(folder / f"{name}.crt", certificate, 0o644)
    for name in [one for one in CONFS if one in certificates]:
        partial = (pending / "conf" / name).read_text(encoding="utf-8")
        key = KEY.search(partial)
        if not key:
            raise Trouble(f"kubeadm has made {name} without a key")
        if name == KUBELET:
            current = kubelet_pair(certificates[name], base64.b64decode(key.group(2)).decode())
            user = f"client-certificate: {current}\nclient-key: {current}"
        else:
            user = f"client-certificate-data: {encoded(certificates[name])}\n{key.group(0).strip()}"
        place = STAGED if name == KUBELET else CONFIGURATION
        write(place / name, kubeconfig(partial, authorities["ca"], user), 0o600)
    shutil.rmtree(pending)


def kubelet_pair(certificate: str, key: str) -> Path:
    """Write the kubelet's certificate with its key, as kubelet keeps it, and return the path that leads to it."""
    current, pair = KUBELET_KEYS / "kubelet-client-current.pem", KUBELET_KEYS / "kubelet-client-signed.pem"
    write(pair, certificate + key, 0o600)
    link = KUBELET_KEYS / ".kubelet-client-current.pem"
    link.unlink(missing_ok=True)
    link.symlink_to(pair)
    os.replace(link, current)
    return current


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "str", "required": True},
            "folder": {"type": "path", "default": "/etc/kubernetes/pki"},
            "control_plane": {"type": "bool", "required": True},
            "authorities": {"type": "dict", "default": {}},
            "certificates": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    given, pending = module.params, STAGED / "requests"
    folder, control_plane = Path(given["folder"]), given["control_plane"]
    done: dict[str, Any] = {"changed": False, "requests": {}}
    if module.check_mode:
        module.exit_json(**done)
    try:
        if (folder / "ca.key").exists():
            raise Trouble(f"{folder}/ca.key is on this machine: a cluster has an external CA from its beginning on")
        if not given["certificates"] and installed(folder, control_plane=control_plane):
            module.exit_json(**done)
        if given["certificates"]:
            install(pending, folder, given["authorities"], given["certificates"])
            done["changed"] = True
        else:
            if not pending.exists():
                make(given["config"], pending, control_plane=control_plane)
                done["changed"] = True
            done["requests"] = requests(pending)
    except (OSError, Trouble) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**done)


if __name__ == "__main__":
    main()
