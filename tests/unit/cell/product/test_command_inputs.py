"""What a program is given, as it sees it: variables, files that other programs read, and folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness import proc
from harness.cell.product.command_inputs import environment_of, joining
from harness.machines.inventory import GROUPS
from harness.spec.phase_environment import ADDRESS, GROUP, NAMES, PREFIX, VARIABLE, is_ours
from harness.spec.product_files import VARIABLE as SOURCES
from harness.spec.settings import NOT_SETTINGS, Settings, load_settings
from tests.unit.cell.product.phases import VARIABLES, Phased

PAGE = Path(__file__).parents[4] / "docs" / "command.md"
SSH = shutil.which("ssh") or "ssh"


def seen(phased: Phased, index: int = 0) -> dict[str, str]:
    """Return the environment that a phase's program has."""
    phased.script(f"env -0 > '{phased.folder}/seen'")
    phased.run(index)
    words = (phased.folder / "seen").read_text(encoding="utf-8").split("\0")
    return dict(word.split("=", 1) for word in words if word)


def test_a_program_is_told_what_there_is_to_do(phased: Phased) -> None:
    told = seen(phased)
    assert (told["VMATRIX_CELL"], told["VMATRIX_PHASE"]) == ("one", "deploy")
    assert told["VMATRIX_MACHINES"] == told["VMATRIX_JOINING_MACHINES"] == "cp-0 w-0"
    assert (told["VMATRIX_LEAVING_MACHINES"], told["VMATRIX_LOST_MACHINES"]) == ("", "")
    assert told["VMATRIX_GROUP_CONTROL_PLANE"] == told["VMATRIX_GROUP_ETCD"] == "cp-0"
    assert (told["VMATRIX_GROUP_NODE"], told["VMATRIX_ADDRESS_w_0"]) == ("w-0", "192.0.2.2")
    assert (told["VMATRIX_MIRROR_URL"], told["VMATRIX_IMAGE_REGISTRY"]) == ("http://mirror:8080", "mirror:5000")
    assert told["VMATRIX_GUEST_KUBECONFIG"] == str(phased.folder / "one" / "kubeconfig")
    assert told["VMATRIX_PHASE_SECONDS"] == "30"


def test_a_program_is_told_where_its_sources_are(phased: Phased, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOURCES, raising=False)
    assert SOURCES not in seen(phased)
    monkeypatch.setitem(VARIABLES, "product_sources", "/the/sources")
    assert seen(phased)[SOURCES] == "/the/sources"


def test_each_variable_is_one_of_the_environment(phased: Phased) -> None:
    told = seen(phased)
    assert told["VMATRIX_VAR_cluster_kubernetes_version"] == "1.36.3"
    assert told["VMATRIX_VAR_cluster_kubelet_config"] == '{"failCgroupV1": false}'
    assert (told["VMATRIX_VAR_cluster_containerd_systemd_cgroup"], told["VMATRIX_VAR_nothing"]) == ("true", "")
    everything = json.loads(Path(told["VMATRIX_VARIABLES"]).read_text(encoding="utf-8"))
    assert everything["cluster_kubelet_config"] == {"failCgroupV1": False}
    assert {f"VMATRIX_VAR_{name}" for name in everything} == {name for name in told if name.startswith(VARIABLE)}


def test_a_variable_that_is_too_long_for_linux_is_in_the_file_alone(phased: Phased) -> None:
    wanted = phased.wanted()
    for length, there in ((131_000, True), (131_072, False)):
        variables = {**wanted.variables, "cluster_file_checksums": "x" * length}
        told = environment_of(replace(wanted, variables=variables))
        assert ("VMATRIX_VAR_cluster_file_checksums" in told) is there
        assert proc.run(["true"], env=told, timeout=10).returncode == 0


def test_a_program_is_told_who_joins_leaves_and_is_lost(phased: Phased) -> None:
    assert seen(phased, 1)["VMATRIX_JOINING_MACHINES"] == "w-1"
    leaving = seen(phased, 2)
    assert (leaving["VMATRIX_LEAVING_MACHINES"], leaving["VMATRIX_JOINING_MACHINES"]) == ("w-1", "")
    lost = seen(phased, 3)
    assert (lost["VMATRIX_LOST_MACHINES"], lost["VMATRIX_MACHINES"]) == ("w-0", "cp-0")
    assert (lost["VMATRIX_GROUP_NODE"], lost["VMATRIX_JOINING_MACHINES"]) == ("", "")


def test_after_a_reset_all_machines_join_again(phased: Phased) -> None:
    cell = phased.environment().cell
    assert joining(cell, "scale-in") == joining(cell, "reset") == ()
    assert joining(cell, "deploy-2") == ("cp-0",)


def test_the_inventory_is_json_with_groups_by_our_names_and_the_products(phased: Phased) -> None:
    inventory = json.loads(Path(seen(phased, 2)["VMATRIX_INVENTORY"]).read_text(encoding="utf-8"))
    assert (inventory["cell"], inventory["phase"]) == ("one", "scale-in")
    first, *_, last = inventory["machines"]
    assert first["groups"] == ["control_plane", "masters", "etcd"]
    key = str(phased.folder / "one" / "id")
    assert last == {
        "name": "w-1",
        "address": "192.0.2.3",
        "port": 22,
        "user": "debian",
        "private_key": key,
        "groups": ["node", "workers", "pool-a"],
        "joins": False,
        "leaves": True,
        "lost": False,
    }


def test_the_inventory_is_ansibles_too(phased: Phased) -> None:
    told = seen(phased)
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-inventory", "-i", told["VMATRIX_ANSIBLE_INVENTORY"], "--list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["pool-a"] == {"hosts": ["w-0"]}


@pytest.mark.parametrize("folder", ["one", "a folder"])
def test_ssh_itself_reads_how_a_machine_is_reached(folder: str, phased: Phased) -> None:
    phased.folder = phased.folder / folder
    phased.folder.mkdir()
    told = seen(phased)
    for name in ("w-0", "192.0.2.2"):
        done = subprocess.run(
            [SSH, "-G", "-F", told["VMATRIX_SSH_CONFIG"], name],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        read = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        assert (read["hostname"], read["port"], read["user"]) == ("192.0.2.2", "22", "debian")
        assert read["identityfile"] == str(phased.folder / "one" / "id")
        assert (read["batchmode"], read["stricthostkeychecking"]) == ("yes", "false")
        assert read["controlpath"].startswith(str(phased.folder.parent / "sockets"))


def test_a_programs_folders_are_its_own(phased: Phased) -> None:
    phased.script(
        'echo x > "$VMATRIX_STATE_DIRECTORY/seen"; file=$(mktemp); echo "$file" > "$VMATRIX_STATE_DIRECTORY/tmp"'
    )
    phased.run(0)
    told = seen(phased, 1)
    state = Path(told["VMATRIX_STATE_DIRECTORY"])
    assert (state / "seen").read_text() == "x\n", "state lasts from phase to phase"
    assert state.stat().st_mode & 0o777 == 0o700
    temporary = Path((state / "tmp").read_text().strip())
    assert temporary.parent.name == "tmp-deploy"
    assert not temporary.parent.exists(), "what is temporary goes with the phase"
    assert not state.is_relative_to(phased.folder / "one"), "a run's directory is passed around"


def test_a_person_can_run_the_program_by_hand(phased: Phased) -> None:
    phased.script(
        f'[ -d "$TMPDIR" ] && [ "$KUBECACHEDIR" = "$TMPDIR/kube" ] && echo "$VMATRIX_PHASE $1" >> {phased.folder}/seen'
    )
    phased.run(1)
    log = phased.environment().files.log("scale-out").read_text(encoding="utf-8")
    command = log.splitlines()[0].removeprefix("$ ")
    bare = {"PATH": os.environ["PATH"]}
    subprocess.run(["/bin/sh", "-c", command], cwd="/", env=bare, timeout=30, check=True)
    assert (phased.folder / "seen").read_text() == "scale-out a b\n" * 2


def test_the_page_names_every_variable() -> None:
    rows = re.findall(r"^\| (`[A-Z].*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(VMATRIX_\w+)`", row)}
    several = {f"{GROUP}{group.upper()}" for group in GROUPS} | {f"{ADDRESS}NAME", f"{VARIABLE}NAME"}
    assert named == NAMES | several | {SOURCES}


def test_no_variable_of_a_phase_is_a_setting_and_a_phase_may_call_vmatrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {PREFIX + name.upper() for name in Settings.model_fields} | NOT_SETTINGS
    assert [name for name in settings if is_ours(name)] == []
    given = {**dict.fromkeys(NAMES, "x"), f"{VARIABLE}a": "1", f"{GROUP}NODE": "w-0", f"{ADDRESS}w_0": "::1"}
    assert load_settings(tmp_path, environment=given).settings == Settings()
