"""What the controller signs for a cluster with an external CA is what kubeadm asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load
from tests.unit.playbooks.test_kubeadm import VERSIONS, kubeadm, versions
from tests.unit.playbooks.test_templates import render

OWN = load(PLAYBOOKS / "roles/external_ca/vars/main.yml")
PURPOSES: list[dict[str, Any]] = (
    OWN["external_ca_files"] + OWN["external_ca_kubeconfigs"] + [OWN["external_ca_kubelet_conf"]]
)
FILES = frozenset({"external-ca.yml"})


@versions
def test_every_kubeadm_asks_for_what_the_controller_signs(version: str, tmp_path: Path) -> None:
    config = render("cp1-w1", tmp_path, FILES, **VERSIONS[version]) / "external-ca.yml"
    words: list[str | Path] = ["--cert-dir", tmp_path / "pki", "--kubeconfig-dir", tmp_path / "conf"]
    proc.run([kubeadm(version), "certs", "generate-csr", "--config", config, *words], timeout=60)
    asked = {}
    for path in sorted(tmp_path.glob("*/**/*.csr")):
        request = x509.load_pem_x509_csr(path.read_bytes())
        name = str(path.relative_to(tmp_path).with_suffix("")).partition("/")[2]
        asked[name] = ",".join(part.rfc4514_string() for part in reversed(request.subject.rdns))
        others = [each.oid for each in request.extensions if each.oid != ExtensionOID.SUBJECT_ALTERNATIVE_NAME]
        assert others == []
    subjects = {each["name"]: str(each["subjects"]) for each in PURPOSES}
    assert asked.keys() == subjects.keys()
    node = {"{{ inventory_hostname }}": "cp", "{{ external_ca_node }}": "system:node:cp"}
    for variable, value in node.items():
        subjects = {name: text.replace(variable, value) for name, text in subjects.items()}
    assert [name for name, subject in asked.items() if f"'{subject}'" not in subjects[name]] == []
