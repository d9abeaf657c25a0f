"""What a process takes from elsewhere than its flags is found: environment, files, control group."""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.validate.hosts import LIBRARY, MACHINE
from harness.validate.machine import library
from tests.unit.processes import shown
from tests.unit.validate.serving import serving

FILE = """\
name: etcd-1
listen-client-urls: "https://127.0.0.1:2379,https://10.0.0.1:2379" # both
client-transport-security:
  cert-file: /tls/server.crt
  client-cert-auth: true
  trusted-ca-file: '/tls/ca.crt'
peer-transport-security:
  client-cert-auth: true
  trusted-ca-file: /tls/peer-ca.crt
snapshot-count: 10000
"""


def test_the_settings_of_etcd_come_from_its_environment(tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.symlink_to("/bin/sleep")
    given = {"ETCD_NAME": "etcd1", "ETCD_TRUSTED_CA_FILE": "/etc/ssl/etcd/ssl/ca.pem", "HOME": "/root"}
    with subprocess.Popen([str(program), "60"], env=given) as process:
        pid = shown(process)
        try:
            (found,) = [one for one in library.processes("etcd") if one["pid"] == pid]
        finally:
            process.kill()
    assert found["settings"] == {"name": "etcd1", "trusted-ca-file": "/etc/ssl/etcd/ssl/ca.pem"}
    assert library.effective(found, "trusted-ca-file") == "/etc/ssl/etcd/ssl/ca.pem"


def test_the_settings_of_etcd_come_from_its_file() -> None:
    assert library.etcd_file(FILE) == {
        "name": "etcd-1",
        "listen-client-urls": "https://127.0.0.1:2379,https://10.0.0.1:2379",
        "client-transport-security": "",
        "cert-file": "/tls/server.crt",
        "client-cert-auth": "true",
        "trusted-ca-file": "/tls/ca.crt",
        "peer-transport-security": "",
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": "/tls/peer-ca.crt",
        "snapshot-count": "10000",
    }


def test_a_file_wins_over_the_environment_as_for_etcd_itself(tmp_path: Path) -> None:
    file = tmp_path / "etcd.yml"
    file.write_text(FILE, encoding="utf-8")
    assert library.settings(os.getpid(), "etcd", ["etcd", f"--config-file={file}"])["name"] == "etcd-1"


def test_modes_of_authorization_come_from_the_file_that_a_flag_names(tmp_path: Path) -> None:
    file = tmp_path / "authorization.yml"
    text = "authorizers:\n  - type: Node\n    name: node\n  - name: rbac\n    type: RBAC\n"
    file.write_text(text, encoding="utf-8")
    argv = ["kube-apiserver", f"--authorization-config={file}"]
    assert library.settings(os.getpid(), "kube-apiserver", argv) == {"authorization-mode": "Node,RBAC"}


@pytest.mark.parametrize("program", ["kubelet", "kube-scheduler"])
def test_other_programs_take_nothing_from_elsewhere(program: str) -> None:
    assert library.settings(os.getpid(), program, [program]) == {}


def test_a_flag_wins_over_other_settings() -> None:
    process = {"argv": ["etcd", "--name=flag"], "settings": {"name": "variable"}}
    assert library.effective(process, "name") == "flag"


def authority_without_key_usage(folder: Path) -> tuple[Path, Path, Path]:
    """Make a CA as `openssl req -x509` does without a word on key usage, and a server's certificate of it."""
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "etcd-ca")])
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "etcd")])
    parts = {
        "ca": (issuer, x509.BasicConstraints(ca=True, path_length=None)),
        "server": (server, x509.SubjectAlternativeName([x509.DNSName("localhost")])),
    }
    for number, (name, (subject, extension)) in enumerate(parts.items(), 1):
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), number)
        dated = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        made = dated.add_extension(extension, critical=False).sign(key, hashes.SHA256())
        (folder / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key").write_bytes(key.private_bytes(*form))
    return folder / "ca.crt", folder / "server.crt", folder / "key"


def test_a_ca_without_key_usage_is_trusted_as_go_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 is strict by default, so this one is made to be."""
    ca, *pair = authority_without_key_usage(tmp_path)
    lenient = ssl.create_default_context

    def strict(**given: Any) -> ssl.SSLContext:
        context = lenient(**given)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    with serving(200, tls=(pair[0], pair[1])) as port:
        url = f"https://localhost:{port}/health"
        assert "verify failed" in library.fetch(url, None, strict(cafile=str(ca)))["body"]
        assert library.fetch(url, None, library.trusting(cafile=str(ca)))["status"] == 200
        assert library.fetch(url, None, library.trusting(cadata=ca.read_text()))["status"] == 200


def test_without_a_ca_nothing_is_trusted() -> None:
    with pytest.raises(OSError, match="cannot be read"):
        library.trusting(cadata="")


def test_a_process_between_fork_and_exec_is_not_a_second_one() -> None:
    own: dict[str, Any] = {"pid": 7, "name": "containerd", "parent": 1}
    forked = {**own, "pid": 8, "parent": 7}
    kubelet = {"pid": 9, "name": "kubelet", "parent": 7}
    another = {**own, "pid": 10, "parent": 1}
    assert library.without_forks([own, forked, kubelet, another]) == [own, kubelet, another]


def test_a_processs_parent_is_known() -> None:
    assert library.parent(os.getpid()) == os.getppid()
    assert library.parent(2**30) == 0


def imported(text: str) -> set[str]:
    """Return the modules that a program imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {f"{'.' * node.level}{node.module or ''}" for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("program", sorted(MACHINE.glob("*.py")), ids=lambda program: program.stem)
def test_a_program_needs_nothing_on_a_machine_but_python_and_the_library(program: Path) -> None:
    own = {library.__name__} if program != LIBRARY else set()
    needed = imported(program.read_text(encoding="utf-8")) - own
    assert {name for name in needed if name.partition(".")[0] not in sys.stdlib_module_names} == set()


def test_what_a_program_imports_is_found_wherever_it_is() -> None:
    text = "import os.path, yaml\nfrom . import near\n\ndef f():\n    from harness.proc import run\n"
    assert imported(text) == {"os.path", "yaml", ".", "harness.proc"}
