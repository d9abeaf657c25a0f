"""A product whose phases are programs: what is right, and one message at its line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec import load_spec
from tests.unit.spec.conftest import MATRIX, edit, mistakes

PRODUCT = """\
product:
  name: the product
  kind: command
  directory: deploy
  phases:
    deploy:
      command: [./install.sh, "--all", "{sources}/x"]
      environment: {TF_LOG: debug}
      working_directory: modules
    upgrade:
      command: [sh, -c, "echo upgrade"]
  sources: {path: elsewhere}
  vars: {cluster_kubernetes_version: "1"}
"""


@pytest.fixture
def matrix(matrix: Path) -> Path:
    """A small matrix whose product is programs."""
    (matrix / "product.yml").write_text(PRODUCT, encoding="utf-8")
    (matrix.parent / "deploy" / "modules").mkdir(parents=True)
    (matrix.parent / "elsewhere").mkdir()
    program = matrix.parent / "deploy" / "install.sh"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    return matrix


def test_programs_are_a_product(matrix: Path) -> None:
    assert mistakes(matrix) == []
    product = load_spec(matrix).product
    deploy, upgrade = product.phases["deploy"], product.phases["upgrade"]
    assert deploy.command == ("./install.sh", "--all", "{sources}/x")
    assert (deploy.program, upgrade.program) == ("./install.sh", None)
    assert dict(deploy.environment) == {"TF_LOG": "debug"}


def test_a_product_is_playbooks_unless_it_says_so(matrix: Path) -> None:
    (matrix / "product.yml").write_text(MATRIX["product.yml"], encoding="utf-8")
    assert load_spec(matrix).product.kind == "ansible"


KINDS = {
    "a program that is not there": (
        *("./install.sh", "./instal.sh"),
        "deploy.command[0]: the program deploy/instal.sh does not exist; create it, or remove the phase",
    ),
    "a folder": (
        *("./install.sh", "./modules"),
        "deploy.command[0]: the program deploy/modules is not a file",
    ),
    "a path that cannot be": (
        *("./install.sh", "./" + "x" * 5000),
        "deploy.command[0]: the program deploy/xxx",
    ),
    "a program that nobody installed": (
        *("[sh, -c", "[no-such-program, -c"),
        "upgrade.command[0]: no folder of the PATH has the program no-such-program; install it, or write "
        "./no-such-program",
    ),
    "a path where a name was meant": (
        *("[./install.sh", "[install.sh"),
        "deploy.command[0]: no folder of the PATH has the program install.sh; install it, or write ./install.sh",
    ),
    "an empty command": (
        *('[sh, -c, "echo upgrade"]', "[]"),
        "upgrade.command: expected at least 1",
    ),
    "a command as one text": (
        *('[sh, -c, "echo upgrade"]', "sh"),
        "upgrade.command: expected a list, got 'sh'",
    ),
    "no program": (
        *('upgrade:\n      command: [sh, -c, "echo upgrade"]', "upgrade: {paths: [x/**]}"),
        "upgrade.command: missing; this key is required",
    ),
    "a playbook": (
        *('command: [sh, -c, "echo upgrade"]', "playbook: cluster.yml"),
        "upgrade.playbook: is for products of kind `ansible`; write `command`, or set `kind: ansible` of the product",
    ),
    "a playbook, too": (
        *("working_directory: modules", "playbook: cluster.yml"),
        "deploy.playbook: the phase has `command`, too, as the product's kind asks; remove `playbook`",
    ),
    "arguments for Ansible": (
        *("working_directory: modules", "args: [--diff]"),
        "deploy.args: belongs to kind ansible; this product is of kind command",
    ),
    "a folder to run in that is not there": (
        *("directory: modules", "directory: moduls"),
        "deploy.working_directory: the directory deploy/moduls does not exist",
    ),
    "a variable of ours": (
        *("TF_LOG", "VMATRIX_CELL"),
        "deploy.environment.VMATRIX_CELL: names that begin with VMATRIX_ are vmatrix's own; use another one",
    ),
    "a variable that is no name": (
        *("TF_LOG", "TF-LOG"),
        "deploy.environment.TF-LOG: expected the name of a variable",
    ),
    "a number in the environment": (
        *("TF_LOG: debug", "TF_LOG: 1"),
        "deploy.environment.TF_LOG: expected a string, got 1; put it in quotes",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_mistake_is_said_once_at_its_line(kind: str, matrix: Path) -> None:
    old, new, message = KINDS[kind]
    line = edit(matrix / "product.yml", old, new)
    (said,) = mistakes(matrix)
    assert said.replace(f"{matrix.parent}/", "").startswith(f"product.yml:{line}: product.phases.{message}")


def test_a_program_that_is_not_executable_is_said_with_the_remedy(matrix: Path) -> None:
    (matrix.parent / "deploy" / "install.sh").chmod(0o644)
    (said,) = mistakes(matrix)
    program = "deploy/install.sh"
    assert said == (
        f"product.yml:7: product.phases.deploy.command[0]: the program {program} is not executable; "
        f"run `chmod +x {program}`"
    )


def test_a_program_may_lie_anywhere(matrix: Path, tmp_path: Path) -> None:
    edit(matrix / "product.yml", "[sh, -c", f"[{tmp_path}/deploy/install.sh, -c")
    assert mistakes(matrix) == []
