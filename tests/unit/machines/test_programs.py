""""""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from harness.machines import programs
from harness.machines.programs import (
    FOLDERS,
    OWNED,
    Inspected,
    ProbedFacts,
    facts_of,
    inspected,
    inspection_command,
    probe_command,
)
from tests.unit.pages import ROOT

SECONDS = 60.0  # a busy host


def printed(*lines: str) -> str:
    return "\n".join(f"vmatrix-probe {line}" for line in lines)


WHOLE = printed("os=Debian GNU/Linux 13 (trixie)", "cpus=4", "memory=2097152", "machine-id=abc", "end=ok")


def test_facts_are_read_between_other_peoples_lines() -> None:
    assert facts_of(f"Welcome to 10% off\nos=fake\n{WHOLE}\nBye\n") == ProbedFacts(
        "Debian GNU/Linux 13 (trixie)", 4, 2048, "abc"
    )


def test_a_machine_that_cloud_init_works_on_boots() -> None:
    found = facts_of(printed("boots=cloud-init", "end=ok"))
    assert found is not None
    assert found.boots


def test_every_trace_counts() -> None:
    found = facts_of(printed("trace=/etc/kubernetes/x=y", "trace=process kubelet", "end=ok"))
    assert found == ProbedFacts("", 0, 0, "", ("/etc/kubernetes/x=y", "process kubelet"))


@pytest.mark.parametrize("text", ["", "Welcome\n", WHOLE.rpartition("\n")[0]])
def test_a_program_that_did_not_end_says_nothing(text: str) -> None:
    assert facts_of(text) is None


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_program_tells_what_this_host_is(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd" / "member").mkdir(parents=True)
    (tmp_path / "kubelet" / "pods").mkdir(parents=True)
    (tmp_path / "etcd" / "member" / "db").touch()
    program = programs.PROBE_PROGRAM
    for folder in FOLDERS:
        program = program.replace(folder, str(tmp_path / folder.rpartition("/")[2]))
    monkeypatch.setattr(programs, "PROBE_PROGRAM", program)
    as_is = probe_command().replace("exec sudo -n sh", "exec sh")  # as on a machine where the user may become root
    done = subprocess.run([shell, "-c", as_is], capture_output=True, text=True, timeout=SECONDS, check=True)
    found = facts_of(done.stdout)
    assert found is not None
    assert [trace for trace in found.traces if not trace.startswith("process ")] == [f"{tmp_path}/etcd/member/db"]
    assert found.cpus >= 1
    assert found.memory_mib > 100
    assert found.machine_id == Path("/etc/machine-id").read_text(encoding="utf-8").strip()
    assert found.os in Path("/etc/os-release").read_text(encoding="utf-8")
    assert done.stderr == ""


PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
ENCODED = base64.b64encode(PEM.encode()).decode()
KEY = "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"
# Files of the roles that are not looked at: private or rotating, or not on the machines for good.
NOT_OWNED = re.compile(
    r"/NAME"
    r"|/etc/(hosts|hostname)|/etc/kubernetes/(pki/.*|kubeadm-join\.yml|(bootstrap-)?kubelet\.conf)|\{\{.*|/run/.*"
    # how far a run has come
    r"|/etc/kubernetes/(init-begun|join-begun|upgrade-begun|drained|etcd\.service)|/etc/etcd/begin\.env"
    r"|/etc/kubernetes/addons/.*"  # what counts are the objects
)


def test_what_is_printed_is_read() -> None:
    of_etcd = ("health={}", 'etcd=a{b="c"} 1', "etcd=d 2")
    text = printed("file=0a1b /etc/x=y z", f"certificate={ENCODED} /etc/a.crt", "kubelet=inactive", *of_etcd, "end=ok")
    files, certificates = {"/etc/x=y z": "0a1b"}, {"/etc/a.crt": PEM.encode()}
    assert inspected(text) == Inspected(files, certificates, "inactive", "{}", 'a{b="c"} 1\nd 2')


def test_half_of_a_certificate_is_none_and_half_of_an_output_is_nothing() -> None:
    assert inspected(printed("certificate=a /etc/a.crt", "end=ok")) == Inspected({}, {"/etc/a.crt": b""})
    assert inspected(printed("certificate= /etc/a.conf", "end=ok")) == Inspected()
    assert inspected(printed("kubelet=active")) is None


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_program_reads_files_and_no_private_key(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {
        "/etc/kubernetes/manifests/etcd.yaml": "a pod\n",
        "/etc/systemd/system/kubelet.service.d/own.conf": "[Service]\n",
        "/etc/kubernetes/pki/apiserver.crt": PEM,
        "/var/lib/kubelet/pki/kubelet-client-current.pem": PEM + KEY,
        "/etc/kubernetes/admin.conf": f"    client-certificate-data: {ENCODED}\n    client-key-data: c2VjcmV0\n",
    }
    for name, content in made.items():
        path = tmp_path / name.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    program = programs.INSPECTION_PROGRAM
    for folder in ("/etc/", "/var/", "/usr/"):
        program = program.replace(f" {folder}", f" {tmp_path}{folder}")
    monkeypatch.setattr(programs, "INSPECTION_PROGRAM", program)
    as_is = inspection_command().replace("exec sudo -n sh", "exec sh")
    done = subprocess.run([shell, "-c", as_is], capture_output=True, text=True, timeout=SECONDS, check=True)
    found = inspected(done.stdout)
    assert found is not None
    assert {path.removeprefix(str(tmp_path)): digest for path, digest in found.files.items()} == {
        name: hashlib.sha256(made[name].encode()).hexdigest()[:16] for name in list(made)[:2]
    }
    assert {path.removeprefix(str(tmp_path)): pem for path, pem in found.certificates.items()} == dict.fromkeys(
        list(made)[2:], PEM.encode()
    )
    assert "c2VjcmV0" not in done.stdout  # a kubeconfig's; a key beside a certificate would have been read with it


def test_every_file_that_the_roles_write_is_looked_at() -> None:
    tasks = [path.read_text(encoding="utf-8") for path in (ROOT / "playbooks" / "roles").glob("*/tasks/*.yml")]
    written = {path.strip('"') for text in tasks for path in re.findall(r"\bdest: ([^,}\n]+(?:\}\}[^,}\n]*)*)", text)}
    written = {re.sub(r"\{\{[^}]*\}\}", "NAME", path) for path in written if path.startswith("/")}
    kept = {path for path in written if NOT_OWNED.fullmatch(path) is None}
    assert len(kept) >= 20
    assert {path for path in kept if not any(fnmatchcase(path, pattern) for pattern in OWNED)} == set()
