"""Users of a real etcd: each reads and writes below its prefix alone, and an API server has enough with that."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness import paths, proc
from harness.artifacts.listening import free_port
from harness.until import Deadline, NotYet, until
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, run_here

VERSIONS = {"etcd": "3.6.8", "kube-apiserver": "1.36.3"}
A, B = ({"name": name, "prefix": f"/registry/{name}"} for name in ("cluster-a", "cluster-b"))
DENIED = "permission denied"
Words = list[str | Path]


def program(name: str, file: str = "") -> Path:
    """Return a program of the cache; it is not made here, which would take minutes."""
    version = VERSIONS[name]
    path = paths.cache_dir() / "artifacts" / name / version / "current" / "files" / (file or name)
    if not path.exists():
        pytest.fail(f"{name} {version} is not in the cache: vmatrix artifacts build {name}@{version}")
    return path


@dataclass(frozen=True)
class Etcd:
    """A member, its CA and certificates, and the folder of all that."""

    place: Path
    url: str

    def ctl(self, login: str, *words: str) -> str:
        """Return what etcdctl says to somebody, by the files of a certificate without their suffix."""
        argv: Words = [program("etcd", "etcdctl"), f"--endpoints={self.url}", f"--cacert={self.place}/pki/etcd/ca.crt"]
        argv += [f"--cert={login}.crt", f"--key={login}.key", *words]
        done = proc.run(argv, timeout=60, check=False)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("{")]
        return "\n".join(lines).strip()

    def client(self, name: str) -> str:
        """Return the login of a client by the files that the role signed."""
        return str(self.place / "clients" / name / "client")

    def users(self, *wanted: dict[str, str], deleted: tuple[str, ...] = ()) -> str:
        """Run the role; return what Ansible said. deleted: prefixes below which all keys go."""
        given = {
            "etcd_users_program": str(program("etcd", "etcdctl")),
            "etcd_users_url": self.url,
            "etcd_users_wanted": list(wanted),
            "etcd_users_deleted": list(deleted),
            "etcd_users_signed": [user["name"] for user in wanted],
            "etcd_users_path": str(self.place / "clients"),
            "etcd_users_ca_path": str(self.place / "ca.yml"),
            "etcd_users_certificates": str(self.place / "pki"),
            "etcd_users_external": True,
            "etcd_users_address": "127.0.0.1",
        }
        play = {"tasks": [{"ansible.builtin.include_role": {"name": "etcd_users"}, "vars": given}]}
        own = {"ansible_playbook_python": "{{ ansible_python_interpreter }}", "ansible_become": False}
        said = run_here(self.place, [play], {}, here=own)
        assert "failed=0" in said, said
        return said


def begin_authority(pki: Path) -> None:
    """Make a CA as kubeadm's folder has it."""
    pki.mkdir(parents=True)
    files: Words = ["-keyout", pki / "ca.key", "-out", pki / "ca.crt", "-subj", "/CN=etcd-ca", "-days", "9"]
    proc.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files], timeout=60)


def sign(place: Path, name: str, subject: str, *, authority: Path, server: bool = False) -> None:
    """Make the certificate and the key of somebody, for this host."""
    names = place / "names"
    names.write_text(f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage=clientAuth{',serverAuth' if server else ''}\n")
    made = ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject]
    proc.run([*made, "-keyout", place / f"{name}.key", "-out", place / f"{name}.csr"], timeout=60)
    signing: Words = ["-CA", authority / "ca.crt", "-CAkey", authority / "ca.key", "-CAcreateserial", "-days", "5"]
    asked: Words = ["-in", place / f"{name}.csr", "-out", place / f"{name}.crt", "-extfile", names]
    proc.run(["openssl", "x509", "-req", *signing, *asked], timeout=60)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Run a member with certificates as kubeadm makes them."""
    place = tmp_path_factory.mktemp("etcd")
    pki = place / "pki" / "etcd"
    begin_authority(pki)
    sign(pki, "server", "/CN=etcd-0", authority=pki, server=True)
    sign(pki, "healthcheck-client", "/CN=kube-etcd-healthcheck-client", authority=pki)
    sign(place, "stranger", "/CN=stranger", authority=pki)
    url, peer = (f"{scheme}://127.0.0.1:{free_port()}" for scheme in ("https", "http"))
    argv: Words = [program("etcd"), "--name=etcd-0", f"--data-dir={place}/data", f"--initial-cluster=etcd-0={peer}"]
    argv += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", "--client-cert-auth"]
    argv += [f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--trusted-ca-file={pki}/ca.crt"]
    service = proc.spawn([*argv, f"--cert-file={pki}/server.crt", f"--key-file={pki}/server.key"], log=place / "log")
    running = Etcd(place, url)
    try:
        health = partial(running.ctl, str(pki / "healthcheck-client"), "endpoint", "health")
        until(lambda: "is healthy" in health() or NotYet("silent"), deadline=Deadline.after(60), what="etcd answers")
        yield running
    finally:
        service.stop(grace=5)


# What somebody asks of etcd, and what the answer has; a client's own prefix is what it has, and a key that all share.
TABLE = (
    ("cluster-a", ("put", "/registry/cluster-a/x", "1"), "OK"),
    ("cluster-a", ("get", "/registry/cluster-a/health"), ""),
    ("cluster-a", ("put", "compact_rev_key", "1"), "OK"),
    ("cluster-a", ("lease", "grant", "10"), "granted"),
    ("cluster-b", ("put", "compact_rev_key", "2"), "OK"),
    ("cluster-b", ("get", "/registry/cluster-b/", "--prefix"), ""),
    ("cluster-a", ("get", "/registry/cluster-b/", "--prefix"), DENIED),
    ("cluster-a", ("put", "/registry/cluster-b/x", "1"), DENIED),
    ("cluster-b", ("get", "/registry/cluster-a/x"), DENIED),
    ("cluster-a", ("get", "/registry/", "--prefix"), DENIED),
    ("cluster-a", ("put", "/registry/cluster-ab/x", "1"), DENIED),
    ("cluster-a", ("del", "", "--prefix"), DENIED),
    ("cluster-a", ("get", "health"), DENIED),
    ("cluster-a", ("endpoint", "status"), DENIED),
    ("cluster-a", ("defrag",), DENIED),
    ("cluster-a", ("user", "list"), DENIED),
    ("cluster-a", ("auth", "disable"), DENIED),
    ("cluster-a", ("member", "add", "z", "--peer-urls=http://127.0.0.1:9", "--learner"), DENIED),
    ("stranger", ("get", "/registry/cluster-a/x"), DENIED),
    ("stranger", ("put", "compact_rev_key", "1"), DENIED),
)


@pytest.fixture(scope="module")
def users(etcd: Etcd) -> str:
    """Have two clients; return what Ansible said."""
    return etcd.users(A, B)


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(
    ("who", "words", "answer"), TABLE, ids=[f"{who}-{'-'.join(words[:2])}" for who, words, _ in TABLE]
)
def test_a_client_reads_and_writes_below_its_prefix_alone(
    etcd: Etcd, who: str, words: tuple[str, ...], answer: str
) -> None:
    said = etcd.ctl(str(etcd.place / who) if who == "stranger" else etcd.client(who), *words)
    assert answer in said
    assert (DENIED in said) is (answer == DENIED)


@pytest.mark.usefixtures("users")
def test_a_second_run_changes_nothing_and_signs_nothing(etcd: Etcd) -> None:
    certificate = Path(f"{etcd.client('cluster-a')}.crt")
    was = certificate.read_bytes()
    assert " changed=0 " in " ".join(etcd.users(A, B).split())
    assert certificate.read_bytes() == was
    assert os.stat(f"{etcd.client('cluster-a')}.key").st_mode & 0o777 == 0o600
    assert sorted(path.name for path in certificate.parent.iterdir()) == ["ca.crt", "client.crt", "client.key"]


@contextmanager
def api_server(etcd: Etcd, name: str, *flags: str) -> Iterator[tuple[str, Path]]:
    """Run an API server as a client of etcd; yield its address and its log."""
    place = etcd.place / f"api-{name}"
    place.mkdir(exist_ok=True)
    sign(place, "serving", "/CN=api", authority=etcd.place / "pki" / "etcd", server=True)
    sign(place, "admin", "/O=system:masters/CN=admin", authority=etcd.place / "pki" / "etcd")
    proc.run(["openssl", "genrsa", "-out", place / "sa.key", "2048"], timeout=60)
    port, login = free_port(), etcd.client(name)
    argv: Words = [
        program("kube-apiserver"),
        f"--etcd-servers={etcd.url}",
        f"--etcd-prefix=/registry/{name}",
    ]
    argv += [
        f"--etcd-cafile={Path(login).parent}/ca.crt",
        f"--etcd-certfile={login}.crt",
        f"--etcd-keyfile={login}.key",
    ]
    argv += ["--etcd-compaction-interval=2s", "--bind-address=127.0.0.1", f"--secure-port={port}", *flags]
    argv += [f"--tls-cert-file={place}/serving.crt", f"--tls-private-key-file={place}/serving.key"]
    argv += [
        f"--client-ca-file={Path(login).parent}/ca.crt",
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",
    ]
    argv += [f"--service-account-key-file={place}/sa.key", f"--service-account-signing-key-file={place}/sa.key"]
    argv += ["--service-account-issuer=https://here", "--service-cluster-ip-range=10.96.0.0/24"]
    service = proc.spawn(argv, log=place / "log", cwd=place)
    try:
        yield f"https://127.0.0.1:{port}", place
    finally:
        service.stop(grace=10)


def ask(address: str, place: Path, path: str, body: dict[str, Any] | None = None) -> str:
    """Return what an API server answers its administrator."""
    context = ssl.create_default_context(cafile=str(place / "../pki/etcd/ca.crt"))
    context.load_cert_chain(place / "admin.crt", place / "admin.key")
    given = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, given, {"Content-Type": "application/json"})  # noqa: S310 - of this test
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:  # noqa: S310
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())
    except OSError as error:
        return str(error)


def compacted(etcd: Etcd) -> int:
    """Return the revision to which an API server says that it has compacted."""
    lines = etcd.ctl(str(etcd.place / "pki/etcd/healthcheck-client"), "get", "compact_rev_key").splitlines()
    return int(lines[-1]) if lines else 0


@pytest.mark.usefixtures("users")
def test_an_api_server_has_enough_with_its_prefix_and_the_key_of_compaction(etcd: Etcd) -> None:
    etcd.ctl(str(etcd.place / "pki/etcd/healthcheck-client"), "del", "compact_rev_key")
    with api_server(etcd, "cluster-a") as (address, place):
        ready = partial(ask, address, place, "/readyz?verbose")
        until(
            lambda: "readyz check passed" in ready() or NotYet(ready()[-300:]),
            deadline=Deadline.after(240),
            what="the API server is ready",
        )
        assert "[+]etcd ok" in ready()
        settings = {"metadata": {"name": "of-a"}, "data": {"a": "b"}}
        assert '"of-a"' in ask(address, place, "/api/v1/namespaces/default/configmaps", settings)
        before = compacted(etcd)
        until(
            lambda: compacted(etcd) > before or NotYet(str(before)),
            deadline=Deadline.after(60),
            what="it compacts etcd",
        )
        log = (place / "log").read_text(encoding="utf-8")
    refused = {
        line.split('"method":"')[1].split('"')[0] for line in log.splitlines() if DENIED in line and '"method"' in line
    }
    assert refused <= {"/etcdserverpb.Maintenance/Status"}, "what etcd says of itself is for administrators alone"
    assert "compact failed" not in log
    keys = etcd.ctl(str(etcd.place / "pki/etcd/healthcheck-client"), "get", "", "--prefix", "--keys-only").split()
    assert {"/".join(key.split("/")[:3]) for key in keys} == {"/registry/cluster-a", "compact_rev_key"}


@pytest.mark.usefixtures("users")
def test_another_prefix_takes_the_former_one_away_and_who_is_removed_reads_nothing(etcd: Etcd) -> None:
    etcd.users({**A, "prefix": "/elsewhere/a"}, B)
    assert etcd.ctl(etcd.client("cluster-a"), "put", "/elsewhere/a/x", "1") == "OK"
    assert DENIED in etcd.ctl(etcd.client("cluster-a"), "get", "/registry/cluster-a/x")
    etcd.users(B)
    assert DENIED in etcd.ctl(etcd.client("cluster-a"), "get", "/elsewhere/a/x")
    assert etcd.ctl(etcd.client("cluster-b"), "put", "/registry/cluster-b/x", "1") == "OK"
    administrator = str(etcd.place / "pki/etcd/healthcheck-client")
    assert etcd.ctl(administrator, "user", "list").split() == ["cluster-b", "kube-etcd-healthcheck-client", "root"]
    assert etcd.ctl(administrator, "role", "list").split() == ["client-cluster-b"]


def test_keys_of_who_is_removed_go_and_those_of_others_stay(etcd: Etcd) -> None:
    etcd.users(A, B)
    administrator = str(etcd.place / "pki/etcd/healthcheck-client")
    for key in ("/registry/cluster-a/x", "/registry/cluster-b/x", "/registry/cluster-ab", "/registry/cluster-a"):
        assert etcd.ctl(administrator, "put", key, "1") == "OK"
    etcd.users(B, deleted=(A["prefix"],))
    assert DENIED in etcd.ctl(etcd.client("cluster-a"), "get", "/registry/cluster-a/x")
    left = etcd.ctl(administrator, "get", "/registry", "--prefix", "--keys-only").split()
    assert not [key for key in left if key.startswith("/registry/cluster-a/")]
    assert {"/registry/cluster-b/x", "/registry/cluster-ab", "/registry/cluster-a"} <= set(left)
    assert " changed=0 " in " ".join(etcd.users(B, deleted=(A["prefix"],)).split())
    etcd.users(A, B)


@pytest.mark.usefixtures("users")
def test_playbooks_on_machines_of_etcd_may_do_what_they_did(etcd: Etcd) -> None:
    administrator = str(etcd.place / "pki/etcd/healthcheck-client")
    assert "is healthy" in etcd.ctl(administrator, "endpoint", "health")
    assert DENIED not in etcd.ctl(administrator, "snapshot", "save", str(etcd.place / "snapshot.db"))
    assert "Finished defragmenting" in etcd.ctl(administrator, "defrag")
    login = load(PLAYBOOKS / "roles/etcd_users/vars/main.yml")["etcd_users_administrators"]
    assert "kube-etcd-healthcheck-client" in login


def test_openssl_signs_what_etcd_takes(etcd: Etcd, users: str) -> None:
    assert "failed=0" in users
    asked: Words = ["-purpose", "sslclient", "-CAfile", etcd.place / "pki/etcd/ca.crt"]
    done = proc.run(["openssl", "verify", *asked, f"{etcd.client('cluster-b')}.crt"], timeout=60)
    assert done.stdout.strip().endswith("OK")
