"""What a product file and a project's own templates get wrong: said with file and line before anything is made."""

from __future__ import annotations

import pytest

from harness.paths import PROJECT
from tests.unit.refusals.called import Refusal, Room

pytestmark = pytest.mark.usefixtures("planned_once")

HERE = {PROJECT: "{WORK}"}
FILE = "matrix/product.yml"
COMMAND = (
    "product:\n  name: p\n  kind: command\n  directory: .\n  phases:\n    deploy: {{command: [/bin/true]{more}}}\n"
)
DECLARED = """\
product:
  name: p
  kind: declared
  directory: .
  declared:
    object: {{apiVersion: example.org/v1, kind: Cluster, name: c}}
    done: {{condition: Ready}}
    failed: {{condition: Failed}}
    kubeconfig: {{secret: admin}}
    install: {{{install}}}
  phases:
    deploy: {{apply: cluster.yml}}
"""
# What is written in a phase of a program, and what has to be said of it.
PHASES = {
    'environment: {A: "x\\0y"}': "environment.A: it contains a control character, NUL",
    "environment: {VMATRIX_CELL: x}": "names that begin with VMATRIX_",
    "environment: {A-B: x}": "environment",
    "environment: [A]": "environment",
    "paths: [/etc/hosts]": "leads out of the project",
    "paths: [../x/*.sh]": "leads out of the project",
    "paths: [nope.sh]": "nope.sh does not exist",
    "working_directory: nope": "nope does not exist",
    "playbook: x.yml": "the phase has `command`, too",
    "args: [-v]": "belongs to kind ansible",
    "delete: true": "belongs to kind declared",
}
INSTALLED = {
    "cluster: [nope.yml]": "nope.yml does not exist",
    "namespace: [nope.yml.j2]": "nope.yml.j2 does not exist",
    "cluster: [{command: [no-such-program, x]}]": "no folder of the PATH has the program no-such-program",
    "namespace: [{command: [./nope.sh]}]": "nope.sh does not exist",
    "namespace: [{command: []}]": "install.namespace[0]",
}


@pytest.mark.parametrize(("more", "says"), PHASES.items(), ids=list(PHASES))
def test_a_phase_of_a_program(room: Room, more: str, says: str) -> None:
    files = {FILE: COMMAND.format(more=f", {more}")}
    room.refuses(Refusal("list", says, files=files, env=HERE))


@pytest.mark.parametrize("name", ["deplo", "Deploy"])
def test_a_phase_that_no_scenario_has(room: Room, name: str) -> None:
    files = {FILE: COMMAND.format(more="") + f"    {name}: {{command: [/bin/true]}}\n"}
    room.refuses(Refusal("list", name, files=files, env=HERE))


@pytest.mark.parametrize(("install", "says"), INSTALLED.items(), ids=list(INSTALLED))
def test_what_a_declared_product_installs(room: Room, install: str, says: str) -> None:
    files = {FILE: DECLARED.format(install=install), "cluster.yml": "spec: {}\n"}
    room.refuses(Refusal("list", says, files=files, env=HERE))


def test_a_path_without_effect_that_leads_out(room: Room) -> None:
    files = {FILE: COMMAND.format(more="") + "  without_effect: [../READM.md]\n"}
    room.refuses(Refusal("list", "leads out of the project", files=files, env=HERE))


# A project's own template of machines, and what has to be said of it.
TEMPLATES = {
    "apiVersion: v1\n{% if %}\n": "cloud-init.yml.j2:2: Expected an expression",
    "a: {{ hostname }\n": "cloud-init.yml.j2:1: unexpected '}'",
    "a: 1\nb: {{ nobody }}\n": "cloud-init.yml.j2:2: 'nobody' is undefined",
    "a: {{ 1 / 0 }}\n": "cloud-init.yml.j2:1: division by zero",
    "a: {{ hostname + 1 }}\n": "cloud-init.yml.j2:1: can only concatenate str",
    "a: [\n": "cloud-init.yml.j2, filled in:",
    "- a\n": "cloud-init.yml.j2, filled in: not an object",
    "extends: defaul\n": "cannot amend the packaged template",
}


@pytest.mark.parametrize("text", TEMPLATES, ids=list(TEMPLATES))
def test_a_template_of_machines(room: Room, text: str) -> None:
    files = {FILE: COMMAND.format(more=""), "vm-templates/cloud-init.yml.j2": text}
    room.refuses(Refusal("explain k1363* --full", TEMPLATES[text], files=files, env=HERE))
