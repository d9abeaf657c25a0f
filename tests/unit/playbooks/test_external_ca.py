"""What the controller signs for a cluster with an external CA is what kubeadm asks for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, tasks
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


JOINS = {
    "upload": ("control_plane/tasks/certificates.yml", "control_plane/templates/kubeadm.yml.j2"),
    "join": ("control_plane_join/tasks/begin.yml", "control_plane_join/templates/kubeadm-join-control-plane.yml.j2"),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("external", [False, True])
def test_kubeadm_brings_no_certificates_to_a_control_plane_that_an_external_ca_signs_for(
    name: str, external: bool, tmp_path: Path
) -> None:
    """It refuses to upload them, and the machine has its own."""
    task_file, template = JOINS[name]
    contents = [
        task["ansible.builtin.copy"]["content"]
        for task in tasks(PLAYBOOKS / "roles" / task_file)
        if "lookup" in str(task.get("ansible.builtin.copy", {}).get("content"))
    ]
    (content,) = contents
    (tmp_path / "made.j2").write_text(content.replace(f"'{Path(template).name}'", f"'{PLAYBOOKS}/roles/{template}'"))
    key: dict[str, Any] = {"control_plane_certificate_key": {"stdout": "ab12"}, "control_plane_join_key": "ab12"}
    chosen = {"made.yml": os.path.relpath(tmp_path / "made.j2", PLAYBOOKS / "roles")}
    made = render("cp3-w1", tmp_path, render=chosen, cluster_external_ca=external, **key) / "made.yml"
    documents = [document for document in yaml.safe_load_all(made.read_text()) if document]
    places = [part for document in documents for part in (document, document.get("controlPlane") or {})]
    assert [part["certificateKey"] for part in places if "certificateKey" in part] == ([] if external else ["ab12"])


def test_requests_wait_until_all_else_of_an_installation_is_done() -> None:
    """They tell of one that was cut short."""
    removed = [task["name"] for task in load(PLAYBOOKS / "roles/external_ca/tasks/install.yml")]
    assert removed[-1] == "Remove the requests"
