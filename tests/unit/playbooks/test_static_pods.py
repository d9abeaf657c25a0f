"""What ends the containers of static pods ends the right one, with each container runtime."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS

# Of two containers, a1 has the process and b2 comes once that has ended; the label has to be that of the component.
CLIENTS = {
    "containerd": (
        "ctr",
        """
case "$*" in
  *"tasks list"*) printf 'TASK PID STATUS\\na1 %s RUNNING\\nb2 1 RUNNING\\nc3 2 RUNNING\\n' "$pid" ;;
  *"containers list"*'"io.kubernetes.container.name"=='"$component") echo "$id" ;;
  *"tasks kill --signal SIG"*a1) kill -"$(echo "$6" | cut -c 4-)" "$pid" ;;
  *) exit 1 ;;
esac""",
    ),
    "crio": (
        "crictl",
        """
case "$*" in
  "ps --quiet --state running "*"io.kubernetes.container.name=$component") echo "$id" ;;
  "inspect a1") printf '{\\n  "info": {\\n    "pid": %s,\\n    "pids": {"limit": 7}\\n  }\\n}\\n' "$pid" ;;
  "inspect b2") printf '{\\n  "info": {\\n    "pid": 1\\n  }\\n}\\n' ;;
  *) exit 1 ;;
esac""",
    ),
}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that runs until it is ended."""
    with subprocess.Popen(["/bin/sleep", "60"]) as running:
        yield running
        running.kill()


def rendered(template: str, **variables: object) -> str:
    """Return a role's script."""
    role, _, name = template.partition("/")
    loader = FileSystemLoader(PLAYBOOKS / "roles" / role / "templates", followlinks=True)
    environment = Environment(loader=loader, trim_blocks=True)  # noqa: S701 - shell, not HTML
    environment.filters |= {
        "stretched": lambda number, scale: number * scale,
        "in_url": str,
        "quote": str,
        "to_json": json.dumps,
    }
    return environment.get_template(name).render(variables)


def put(folder: Path, name: str, script: str) -> None:
    """Put a program into a folder."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def put_client(folder: Path, runtime: str, component: str, pid: int) -> None:
    """Put a container runtime's client into a folder, of a component's container with this process."""
    name, answers = CLIENTS[runtime]
    ended = f"grep -q '^State:.Z' /proc/{pid}/status && id=b2"
    put(folder, name, f"component={component} pid={pid} id=a1\n{ended}\n{answers}")


def upgrade_function(name: str, runtime: str = "containerd") -> str:
    """Return a function of the script that upgrades a control plane."""
    text = rendered(
        "kubeadm_upgrade/upgrade.sh.j2",
        kubeadm_upgrade_container_runtime=runtime,
        kubeadm_upgrade_timeout=60,
        kubeadm_upgrade_timeout_scale=1,
        kubeadm_upgrade_patches=[],
        kubeadm_upgrade_ignore_preflight_errors=[],
        kubeadm_upgrade_timeouts={},
    )
    _, head, rest = text.partition(f"\n{name}() {{")
    return head + rest.partition("\n}\n")[0] + "\n}\n"


@pytest.mark.parametrize("runtime", CLIENTS)
def test_an_api_server_steps_aside_once_the_new_etcd_is_in_place(
    tmp_path: Path, process: subprocess.Popen[bytes], runtime: str
) -> None:
    script = upgrade_function("step_aside", runtime).replace("/usr/local/bin/crictl", str(tmp_path / "crictl"))
    put_client(tmp_path, runtime, "kube-apiserver", process.pid)
    for name in ("etcd.yaml", "new.yaml"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    kubeadm = (
        f"sleep 0.5\nsed -n 's/^State:.//p' /proc/{process.pid}/status\nmv {tmp_path}/new.yaml {tmp_path}/etcd.yaml"
    )

    done = proc.run(
        ["sh", "-eu", "-c", f"manifests={tmp_path}\n{script}\nstep_aside &\n{kubeadm}\nwait"],
        timeout=30,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    assert "sleeping" in done.stdout  # until then it ran
    assert process.wait(timeout=10) == -9


CRASH = {"placed": 5, "new": ("words", "words"), "runs": False, "component": "kube-apiserver", "api_server": True}


@pytest.mark.parametrize(
    ("differs", "crashes"),
    [
        ({}, True),
        ({"new": ("words",)}, False),
        ({"new": ("words", "")}, False),  # the second has not begun, on a slow machine for long
        ({"runs": True}, False),
        ({"new": (), "former": ("words", "words")}, False),  # of the pod that is replaced
        ({"placed": 30}, False),
        ({"component": "kube-scheduler"}, True),
        ({"component": "kube-scheduler", "api_server": False}, False),
        ({"api_server": False}, True),
    ],
)
def test_a_component_crashes_where_two_containers_of_its_new_pod_have_ended_at_once(
    differs: dict[str, Any], tmp_path: Path, *, crashes: bool
) -> None:
    given = {"former": (), **CRASH, **differs}
    component, now = given["component"], time.time()
    for pod, made in (("former", now - 3600), ("new", now)):
        folder = tmp_path / "pods" / f"kube-system_{component}-cp-0_{pod}" / component
        folder.mkdir(parents=True)
        for number, words in enumerate(given[pod]):
            (folder / f"{number}.log").write_text(words, encoding="utf-8")
        os.utime(folder.parent, (made, made))
    manifest = tmp_path / f"{component}.yaml"
    manifest.touch()
    os.utime(manifest, (now - given["placed"], now - given["placed"]))
    put(tmp_path, "pgrep", f"[ {given['runs']} = True ]")
    script = upgrade_function("crashes").replace("/var/log/pods", str(tmp_path / "pods"))
    serves = f"serves() {{ [ $1 = kube-apiserver ] && [ {given['api_server']} = True ]; }}"

    done = proc.run(
        ["sh", "-u", "-c", f"manifests={tmp_path} work={tmp_path}\n{serves}\n{script}\ncrashes {component}"],
        timeout=30,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    assert (done.returncode, done.stderr) == (0 if crashes else 1, "")
