"""What packages are called is data for every operating system of the matrix; another one is refused with a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.paths import project_dir
from tests.unit import ansible_programs
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load
from tests.unit.playbooks.test_templates import ANSIBLE, render

DEFAULTS = load(PLAYBOOKS / "roles" / "bootstrap_os" / "defaults" / "main.yml")
PACKAGES: dict[str, dict[str, str]] = DEFAULTS["bootstrap_os_packages"]
IMAGES = {image["name"]: image for image in load(project_dir() / "matrix" / "images.yml")["images"]}
AXES = {axis["name"]: axis["values"] for axis in load(project_dir() / "matrix" / "axes.yml")["axes"]}


def more_commands(directory: Path, **variables: Any) -> list[str]:
    """Return what a machine needs beyond what all need, with these variables."""
    template = Path("..") / ".." / Path(__file__).parent.relative_to(PLAYBOOKS.parent) / "commands.json.j2"
    place = render("cp1-w1", directory, render={"commands.json": str(template)}, **variables)
    found: list[str] = json.loads((place / "commands.json").read_text(encoding="utf-8"))["more"]
    return found


@pytest.mark.parametrize("value", AXES["os"], ids=lambda value: value["id"])
def test_every_operating_system_of_the_matrix_is_known(value: dict[str, Any]) -> None:
    image = IMAGES[value["image"]]
    assert f"{image['os']}-{image['version']}" in PACKAGES


@pytest.mark.parametrize("mode", ["iptables", "nftables"])
def test_every_command_has_a_package_on_every_operating_system(tmp_path: Path, mode: str) -> None:
    wanted = {*DEFAULTS["bootstrap_os_commands"], *more_commands(tmp_path, cluster_kube_proxy_mode=mode)}
    assert "haproxy" in wanted
    assert ("iptables" in wanted) is (mode == "iptables")
    assert {system: wanted - packages.keys() for system, packages in PACKAGES.items() if wanted - packages.keys()} == {}


def test_the_images_of_the_project_have_every_package() -> None:
    recipe = yaml.safe_load((project_dir() / "vm-templates" / "images" / "debian" / "recipe.yml").read_text("utf-8"))
    for system in ("debian-12", "debian-13"):
        assert set(PACKAGES[system].values()) <= set(recipe["packages"])


def test_a_system_whose_packages_are_not_known_is_refused_with_the_remedy(tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    role = {"role": str(PLAYBOOKS / "roles" / "bootstrap_os")}
    given = {
        "bootstrap_os_hostname": "here",
        "bootstrap_os_commands": ["sh", "no-such-command"],
        "bootstrap_os_packages": {"debian-99": {"no-such-command": "package"}},
    }
    hosts = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": given, "roles": [role]}
    play.write_text(yaml.safe_dump([{"name": "Prepare", **hosts}]), encoding="utf-8")
    done = ansible_programs.run(
        [ANSIBLE, "-i", "localhost,", play],
        timeout=60,
        check=False,
        env={"ANSIBLE_HOME": str(tmp_path), "ANSIBLE_LIBRARY": str(PLAYBOOKS / "library")},
    )
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "lacks the commands no-such-command, and their package names are unknown" in said
    assert "install them, or add the operating system to bootstrap_os_packages (known: debian-99)" in said
