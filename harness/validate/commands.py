"""Commands: what a person types after a failed check: lines that a shell takes, with the names of the finding.

A command on a machine goes through `vmatrix login`, as root: what a check asks about is root's, and so are programs in
/usr/sbin. Words in capital letters, such as ADDRESS, are filled in from what the check has found; where that names
none, from the cell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from harness.urls import in_url
from harness.validate.expected import CONTROL_PLANE_PROGRAMS, ExpectedGuest
from harness.validate.findings import Mismatch

Command = Callable[[Sequence[Mismatch]], str]  # by what was found
PROGRAMS = (*CONTROL_PLANE_PROGRAMS, "kube-proxy", "kubelet", "etcd", "containerd", "crio", "flanneld", "haproxy")
PATH = re.compile(r"(?<![\w/])/(?:etc|var|usr|opt|run|root|home|srv|tmp)/[\w./@-]*[\w-]")
ADDRESS = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?![\w.])")
UNIT = re.compile(r"\b([\w@-]+\.(?:service|path|timer|socket|mount))\b")
SETTING = re.compile(r"\b((?:net|kernel|fs|vm)\.[\w.]+)")
POD = re.compile(r"\bpod ([\w./-]+)")
WORD = re.compile(r"\b[A-Z][A-Z_]+\b")


def on_machine(expected: ExpectedGuest, script: str, machine: str = "") -> Command:
    """Return a command of root's on a machine.

    Args:
        script: for a shell; with words in capital letters to be filled in.
        machine: which one; else the first that the findings name, or the first control plane.
    """

    def line(findings: Sequence[Mismatch]) -> str:
        name = machine or _machine(findings, expected)
        filled = _filled(script, name, findings, expected)
        words = ["sudo", *shlex.split(filled)] if _plain(filled) else ["sudo", "sh", "-c", filled]
        if not expected.cell:  # a cluster of others, whose machines have logins of their own
            return f"on {name}: {shlex.join(words)}"
        return f"{expected.login(name)} -- {shlex.join(words)}"

    return line


def kubectl(expected: ExpectedGuest, *arguments: str) -> Command:
    """Return commands of kubectl, in the cell's folder: one for each text of arguments."""

    def line(findings: Sequence[Mismatch]) -> str:
        name = _machine(findings, expected)
        texts = (_filled(text, name, findings, expected) for text in arguments)
        return "; ".join(f"kubectl --kubeconfig kubeconfig {text}" for text in texts)

    return line


def etcdctl(expected: ExpectedGuest, arguments: str) -> Command:
    """Return a command of etcdctl beside a member: in its pod, or on its machine."""
    folder = f"{expected.leaves.certificates or '/etc/kubernetes/pki'}/etcd"
    login = f"--cacert={folder}/ca.crt --cert={folder}/server.crt --key={folder}/server.key"
    if expected.static("etcd") is not False:
        return kubectl(expected, f"-n kube-system exec etcd-ETCD -- etcdctl {login} {arguments}")
    members = [name for name in expected.etcd if name in expected.machines]
    return on_machine(expected, f"etcdctl {login} {arguments}", members[0] if members else "")


def _plain(script: str) -> bool:
    """Tell whether a script is one command, without anything that only a shell knows."""
    return not re.search(r"[;|&<>$*?`~(){}\\\"']", script)


def _machine(findings: Sequence[Mismatch], expected: ExpectedGuest) -> str:
    texts = [text for finding in findings for text in (finding.where, finding.seen)]
    named = (name for text in texts for name in expected.machines if _names(text, name))
    return next(named, expected.control_plane[0] if expected.control_plane else expected.machines[0])


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _filled(text: str, machine: str, findings: Sequence[Mismatch], expected: ExpectedGuest) -> str:
    words = _words(machine, findings, expected)
    return WORD.sub(lambda match: words.get(match[0], match[0]), text)


def _words(machine: str, findings: Sequence[Mismatch], expected: ExpectedGuest) -> Mapping[str, str]:
    """Return what stands for each word in capital letters."""
    text = "\n".join(f"{finding.where}\n{finding.expected}\n{finding.seen}" for finding in findings)
    address = in_url(expected.addresses.get(machine) or "127.0.0.1")
    others = [name for name in expected.nodes if name != machine]
    file = _first(PATH, text, "/etc/kubernetes/kubelet.conf")
    program = next((name for name in PROGRAMS if _names(text, name)), "kubelet")
    folder = expected.leaves.certificates or "/etc/kubernetes/pki"
    certificate = file if file.endswith((".crt", ".pem")) else f"{folder}/apiserver.crt"
    return {
        "MACHINE": machine,
        "NODE": machine if machine in expected.nodes else expected.nodes[0],
        "OTHER": expected.addresses.get(others[0] if others else machine, address),
        "ADDRESS": address,
        "POD_ADDRESS": next(
            (address_seen for address_seen in ADDRESS.findall(text) if address_seen not in expected.addresses.values()),
            address,
        ),
        "FILE": file,
        "CERTIFICATE": certificate,
        "KEY": f"{certificate.rpartition('.')[0]}.key",
        "CA": f"{folder}/ca.crt",
        "PROGRAM": program,
        "UNIT": _first(UNIT, text, expected.leaves.kubelet.unit or "kubelet"),
        "SETTING": _first(SETTING, text, "net.ipv4.ip_forward"),
        "POD": _first(POD, text, f"kube-apiserver-{machine}").rpartition("/")[2],
        "ETCD": machine if machine in expected.etcd else next(iter(expected.etcd), machine),
        "DOMAIN": expected.dns_domain,
    }


def _first(pattern: re.Pattern[str], text: str, usual: str) -> str:
    match = pattern.search(text)
    return match[pattern.groups] if match else usual
