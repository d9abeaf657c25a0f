"""Images are pulled ahead by one unit of systemd, each by its own process; where it runs already, that is enough."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path

import pytest

from tests.unit.playbooks.playbook_files import refusal_of, run_here

# Notes what it is asked to run; on two of the machines it refuses.
SYSTEMD_RUN = """
printf '%s\\n' "$@" >"$place/$machine.argv"
case "$machine" in
  pulls) echo "Failed to start transient service unit: Unit prefetch-images.service was already loaded" >&2; exit 1 ;;
  broken) echo "Failed to connect to bus" >&2; exit 1 ;;
esac
"""
IMAGES = ["registry/pause:3.10", "registry/kube-proxy:v1.36.3", "registry/flannel:v0.27"]
# By the machine's name: its runtime, and the program that pulls an image.
ROWS = {"fresh": ("containerd", "/usr/local/bin/ctr"), "crio": ("crio", "/usr/local/bin/crictl")}
ROWS |= {"pulls": ROWS["fresh"], "broken": ROWS["fresh"]}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return what Ansible said of all rows in one run, and the folder of the calls."""
    place = tmp_path_factory.mktemp("images")
    images = {"container_runtime_sandbox_image": IMAGES[0], "container_runtime_prefetch": IMAGES[1:]}
    hosts = {name: {"container_runtime_name": runtime, **images} for name, (runtime, _) in ROWS.items()}
    play = {"tasks": [{"ansible.builtin.include_role": {"name": "container_runtime", "tasks_from": "prefetch"}}]}
    return run_here(place, [play], {"systemd-run": SYSTEMD_RUN}, **hosts), place


@pytest.mark.parametrize("row", ROWS)
def test_one_unit_pulls_all_images(row: str, said: tuple[str, Path]) -> None:
    words = (said[1] / f"{row}.argv").read_text(encoding="utf-8").splitlines()
    given = next(word for word in words if "StandardInputData=" in word).partition("StandardInputData=")[2]
    assert base64.b64decode(given).decode().splitlines() == IMAGES
    program = words[words.index("xargs") :]
    assert program[1:3] == ["--max-args=1", "--max-procs=0"]
    assert program[3] == ROWS[row][1], shlex.join(program)
    assert program[-1] == ("pull" if row == "crio" else "/etc/containerd/certs.d")
    assert {"--no-block", "--collect", "--unit=prefetch-images", "--property=StandardInput=data"} <= set(words)


def test_only_a_unit_that_does_not_begin_is_a_failure(said: tuple[str, Path]) -> None:
    assert [row for row in ROWS if refusal_of(said[0], row)] == ["broken"]
