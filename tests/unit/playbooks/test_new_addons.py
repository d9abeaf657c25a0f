"""What is asked of a cluster's add-ons: nothing that kubeadm has just made, once, and everything ever after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.test_templates import render

# Note how they were called. The cluster's pods are older than its ConfigMaps; its CoreDNS is of another version.
KUBEADM = """#!/bin/sh
printf '%s\\n' "kubeadm $*" >>{place}/calls
"""
KUBECTL = """#!/bin/sh
printf '%s\\n' "kubectl $*" >>{place}/calls
case "$*" in
*Corefile*) printf '    cache 30\\n' ;;
*managedFields*) echo 2026-01-02T00:00:00Z ;;
*startTime*) echo "2026-01-01T00:00:00Z a-pod" ;;
*containers*image*) echo registry/coredns:v0.0.1 ;;
*replace*) cat >/dev/null; {replaced} ;;
esac
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, str]]:
    """Return init.sh and addons.sh, by the seconds that CoreDNS keeps answers."""
    found = {}
    for seconds in (30, 20):
        place = tmp_path_factory.mktemp("addons")
        names = frozenset({"init.sh", "addons.sh"})
        render("cp1-w1", place, names, kubeadm_addons_coredns_cache_seconds=seconds)
        found[seconds] = {name: (place / name).read_text(encoding="utf-8") for name in names}
    return found


class Machine:
    """A control plane's files, below a folder, and its scripts."""

    def __init__(self, place: Path, scripts: dict[str, str], *, replaced: str = ":") -> None:
        self.place, self.scripts = place, scripts
        for name in ("kubernetes/patches", "kubernetes/pki", "lock", "bin"):
            (place / name).mkdir(parents=True)
        self.config = place / "kubernetes/kubeadm.yml"
        self.config.write_text("one: 1\n", encoding="utf-8")
        self.patch = place / "kubernetes/patches/etcd0+strategic.json"
        self.patch.write_text("{}\n", encoding="utf-8")
        own = next(line for line in scripts["addons.sh"].splitlines() if line.startswith("patches="))
        self.coredns = place / "kubernetes/patches/corednsdeployment0+strategic.json"
        self.coredns.write_text(f'{{"kubeadm/patches": "{own.removeprefix("patches=")}"}}\n', encoding="utf-8")
        for name, text in (("kubeadm", KUBEADM), ("kubectl", KUBECTL), ("systemctl", "#!/bin/sh\n")):
            program = place / "bin" / name
            program.write_text(text.format(place=place, replaced=replaced), encoding="utf-8")
            program.chmod(0o755)

    def run(self, name: str, *, fails: bool = False) -> list[str]:
        """Run a script; return what it called."""
        (self.place / "calls").write_text("", encoding="utf-8")
        here = self.scripts[name].replace("/etc/kubernetes", f"{self.place}/kubernetes")
        here = here.replace("/run/lock/", f"{self.place}/lock/")
        path = {"PATH": f"{self.place / 'bin'}:{os.environ['PATH']}"}
        done = proc.run(["sh", "-c", here], timeout=20, env=path, check=False)
        assert (done.returncode != 0) is fails, done.stderr
        return (self.place / "calls").read_text(encoding="utf-8").splitlines()


def everything(calls: list[str]) -> bool:
    """Tell whether both add-ons were made again, and the pods that are older than their configuration replaced."""
    said = "\n".join(calls)
    wanted = ("phase addon kube-proxy", "phase addon coredns", "delete --namespace kube-system pod a-pod", "restart")
    return all(word in said for word in wanted)


def test_what_kubeadm_has_just_made_is_only_waited_for(scripts: dict[int, dict[str, str]], tmp_path: Path) -> None:
    machine = Machine(tmp_path, scripts[30])
    assert [call.split()[:2] for call in machine.run("init.sh")] == [["kubeadm", "init"]]
    nodes, former, waited, looked = machine.run("addons.sh")
    assert "get nodes" in nodes
    assert "get configmap kube-proxy" in former
    assert "rollout status" in waited
    assert "daemonset/kube-proxy" in waited
    assert "get configmap coredns" in looked
    assert everything(machine.run("addons.sh"))


@pytest.mark.parametrize("changed", ["config", "patch"])
def test_another_configuration_is_carried_out(changed: str, scripts: dict[int, dict[str, str]], tmp_path: Path) -> None:
    machine = Machine(tmp_path, scripts[30])
    machine.run("init.sh")
    getattr(machine, changed).write_text("another: 2\n", encoding="utf-8")
    assert everything(machine.run("addons.sh"))
    assert everything(machine.run("addons.sh"))


def test_a_setting_that_kubeadm_does_not_know_is_carried_out(
    scripts: dict[int, dict[str, str]], tmp_path: Path
) -> None:
    machine = Machine(tmp_path, scripts[20])
    machine.run("init.sh")
    said = "\n".join(machine.run("addons.sh"))
    assert "kubectl replace" in said
    assert "rollout restart --namespace kube-system deployment/coredns" in said
    assert "kubeadm" not in said


def test_a_patch_in_place_of_the_playbooks_own_is_noted(scripts: dict[int, dict[str, str]], tmp_path: Path) -> None:
    machine = Machine(tmp_path, scripts[30])
    machine.coredns.write_text('{"theirs": 1}\n', encoding="utf-8")
    machine.run("init.sh")
    said = "\n".join(machine.run("addons.sh"))
    assert "kubectl annotate" in said
    assert "phase addon kube-proxy" not in said


def test_what_an_attempt_before_made_is_looked_at(scripts: dict[int, dict[str, str]], tmp_path: Path) -> None:
    machine = Machine(tmp_path, scripts[30])
    (tmp_path / "kubernetes/init-begun").touch()
    machine.run("init.sh")
    assert everything(machine.run("addons.sh"))


def test_a_run_that_is_killed_is_put_right_by_the_next(scripts: dict[int, dict[str, str]], tmp_path: Path) -> None:
    machine = Machine(tmp_path, scripts[20], replaced="exit 1")
    machine.run("init.sh")
    machine.run("addons.sh", fails=True)
    calls = machine.run("addons.sh", fails=True)  # as far as it gets
    assert any("phase addon kube-proxy" in call for call in calls)
