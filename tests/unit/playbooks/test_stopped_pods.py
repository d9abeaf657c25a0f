"""A recovery waits until the static pods whose manifests it took away have ended, with each container runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from harness import proc

TEMPLATES = Path(__file__).parents[3] / "playbooks/roles/etcd_restore/templates"
CLIENTS = {
    "containerd": ("ctr", 'case "$*" in *tasks*) echo "a1 7 RUNNING" ;; *) echo a1 ;; esac'),
    "crio": ("crictl", 'case "$*" in *" --label io.kubernetes.container.name=etcd"*) echo a1 ;; *) exit 1 ;; esac'),
}


@pytest.mark.parametrize("runtime", CLIENTS)
@pytest.mark.parametrize("ends", [True, False])
def test_a_recovery_waits_for_a_container_that_still_runs(tmp_path: Path, runtime: str, *, ends: bool) -> None:
    environment = Environment(loader=FileSystemLoader(TEMPLATES), trim_blocks=True)  # noqa: S701 - shell, not HTML
    environment.filters["stretched"] = lambda number, scale: number * scale
    text = environment.get_template("stop.sh.j2").render(
        etcd_restore_container_runtime=runtime, etcd_restore_timeout=2 if not ends else 60, etcd_restore_timeout_scale=1
    )
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "etcd.yaml").touch()
    program, runs = CLIENTS[runtime]
    left = tmp_path / "left"  # of looks at the container that runs
    left.write_text("...\n" if ends else "." * 99 + "\n", encoding="utf-8")
    looks = f'[ -s {left} ] || exit 0; tail -c +2 {left} >{left}.1; mv {left}.1 {left}; [ "$(cat {left})" ] || exit 0'
    (tmp_path / program).write_text(f"#!/bin/sh\n{looks}\n{runs}\n", encoding="utf-8")
    for name, script in {"systemctl": "exit 3", "journalctl": "true", "sleep": "/bin/sleep 0.1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    for file in (program, "systemctl", "journalctl", "sleep"):
        (tmp_path / file).chmod(0o755)
    for place in ("/etc/kubernetes/manifests", "/etc/kubernetes/recover", "/usr/local/bin/crictl"):
        text = text.replace(place, str(tmp_path / Path(place).name))

    done = proc.run(["sh", "-c", text], timeout=60, check=False, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})

    assert "stopped etcd" in done.stdout
    assert (tmp_path / "recover/etcd.yaml").exists()
    assert done.returncode == int(not ends), done.stderr
    assert ("does not stop etcd" in done.stderr) is not ends
    assert (left.read_text(encoding="utf-8").strip() == "") is ends  # it looked until none ran
