"""What CRI-O asks of runc for machines that are containers: no more than such a machine can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.playbook_files import ROLES

CAPABILITIES = {
    "bounding": ["CAP_SYS_RESOURCE", "CAP_CHOWN"],
    "effective": ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_KILL"],
    "permitted": ["CAP_CHOWN", "CAP_SYS_RESOURCE"],
    "inheritable": ["CAP_SYS_RESOURCE"],
}
SCRIPT = "container_runtime/files/runc-within-limits"


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    """Return the script, with a runc that prints its arguments."""
    runc = tmp_path / "runc"
    runc.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    runc.chmod(0o755)
    role = next(role for role in ROLES if role.name == "container_runtime")
    text = (role.parent / SCRIPT).read_text(encoding="utf-8").replace("/usr/local/bin/runc", str(runc))
    text = text.replace("capabilities >> 24 & 1", "0").replace("/sys/fs/cgroup/", "/nowhere/")
    script = tmp_path / "script"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize(("asked", "given"), [(-997, 0), (0, 0), (1000, 1000)])
def test_what_the_machine_cannot_do_is_left_out(
    wrapper: Path, tmp_path: Path, asked: int, given: int, indent: int | None
) -> None:
    limits = [{"pageSize": "2MB", "limit": 0}, {"pageSize": "1GB", "limit": 0}]
    spec = {
        "process": {"oomScoreAdj": asked, "args": ["--bundle"], "capabilities": CAPABILITIES},
        "linux": {"hugepageLimits": limits, "x": [1]},
    }
    files = [tmp_path / file for file in ("config.json", "process.json")]
    for file in files:
        file.write_text(json.dumps(spec, indent=indent), encoding="utf-8")
    for words in (["create", "--bundle", str(tmp_path), "c1"], ["exec", "--process", f"{tmp_path}/process.json", "c1"]):
        done = proc.run([wrapper, "--root", "/run/runc", *words], timeout=10)
        assert done.stdout.splitlines() == ["--root", "/run/runc", *words]
    left = {name: [one for one in found if one != "CAP_SYS_RESOURCE"] for name, found in CAPABILITIES.items()}
    wanted = {
        "process": {"oomScoreAdj": given, "args": ["--bundle"], "capabilities": left},
        "linux": {"hugepageLimits": [], "x": [1]},
    }
    assert [json.loads(file.read_text(encoding="utf-8")) for file in files] == [wanted, wanted]


def test_a_machine_that_can_do_it_all_gets_what_was_asked_for(wrapper: Path, tmp_path: Path) -> None:
    text = wrapper.read_text(encoding="utf-8").replace("$((0))", "$((1))")
    wrapper.write_text(text.replace("/nowhere/hugetlb", str(tmp_path)), encoding="utf-8")
    asked = '{"oomScoreAdj": -997, "hugepageLimits": [{"limit": 0}]}'
    (tmp_path / "config.json").write_text(asked, encoding="utf-8")
    proc.run([wrapper, "create", "--bundle", str(tmp_path), "c1"], timeout=10)
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == asked
