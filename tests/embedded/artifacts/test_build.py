"""Builds through the real toolchain: once for all who ask, and nothing half done after a kill.

Needs Go, or the package index that carries it, and the module cache or a module proxy.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts.recipe import Ref, Source
from harness.artifacts.store import Store
from harness.until import Deadline, NotYet, until

CRANE = Ref("crane", "0.22.1")
BUILD_SECONDS = 300.0
OBTAIN = """
import sys
from pathlib import Path
from harness.artifacts.recipe import Source
from harness.artifacts.store import Store
seen = []
Store(Path(sys.argv[1]), Source.GOMOD).obtain("crane", "0.22.1", lambda event: seen.append(str(event.phase)))
print("built" if "under way" in seen else "waited" if "waiting for another process" in seen else "found")
"""


def start(root: Path, log: Path) -> proc.Service:
    env = {"PYTHONPATH": str(Path(__file__).parents[3])}
    return proc.spawn([sys.executable, "-c", OBTAIN, str(root)], log=log, env=env)


def wait_for_end(service: proc.Service) -> None:
    def ended() -> bool | NotYet:
        return NotYet("still runs") if service.alive() else True

    until(ended, deadline=Deadline.after(BUILD_SECONDS), what="the builder ends", interval=0.1)


def wait_for_build(root: Path) -> None:
    """Wait until a compiler works for this cache, and in it."""

    def begun() -> bool | NotYet:
        return True if list(root.glob("crane/*/.tmp-*/*/go-build*")) else NotYet("no compiler works yet")

    until(begun, deadline=Deadline.after(60), what="a build has begun", interval=0.02)


def nobody_builds(root: Path) -> bool | NotYet:
    """Tell whether no process has a folder of this cache in its command line."""
    for commandline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = commandline.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/go") and any(str(root).encode() in word for word in words):
            return NotYet(b" ".join(words).decode())
    return True


def test_two_processes_build_once(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for service in [start(root, log) for log in logs]:
        wait_for_end(service)
    outcomes = sorted(log.read_text().strip() for log in logs)
    assert outcomes in (["built", "waited"], ["built", "found"])
    assert Store(root, Source.GOMOD).cached(CRANE) is not None


def test_a_killed_build_leaves_no_half_artifact(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    victim = start(root, tmp_path / "victim.log")
    wait_for_build(root)
    os.kill(victim.pid, signal.SIGKILL)
    wait_for_end(victim)
    store = Store(root, Source.GOMOD)
    assert store.cached(CRANE) is None
    assert list(root.glob("crane/*/.tmp-*"))
    until(lambda: nobody_builds(root), deadline=Deadline.after(10), what="the compiler ends as well", interval=0.05)
    crane = store.obtain("crane", "0.22.1").file("crane")
    assert proc.run([crane, "version"], timeout=20).stdout.strip()
    assert not list(root.glob("crane/*/.tmp-*"))


def test_a_failed_build_shows_its_last_lines_and_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.artifacts.gomod import Build
    from harness.errors import InfraError

    store = Store(tmp_path / "artifacts", Source.GOMOD)
    recipe = store.recipe(CRANE)
    assert isinstance(recipe, Build)
    broken = Build(CRANE, recipe.recipe.model_copy(update={"packages": {"crane": "example.invalid/none"}}))
    monkeypatch.setattr(Store, "recipe", lambda _self, _ref: broken)
    with pytest.raises(InfraError, match=r"building crane@0\.22\.1 failed") as raised:
        store.obtain("crane", "0.22.1")
    assert "example.invalid/none" in raised.value.detail
    (log,) = raised.value.paths
    assert "example.invalid/none" in log.read_text()
    assert not list((tmp_path / "artifacts").glob("crane/*/gomod-*"))


def test_programs_say_the_version_that_they_were_built_from() -> None:
    store = Store()
    kubeadm = store.obtain("kubeadm", "1.36.3").file("kubeadm")
    assert proc.run([kubeadm, "version", "-o", "short"], timeout=20).stdout.strip() == "v1.36.3"
    kubectl = store.obtain("kubectl", "1.36.3").file("kubectl")
    assert 'minor: "36"' in proc.run([kubectl, "version", "--client", "-o", "yaml"], timeout=20).stdout
    etcd = store.obtain("etcd", "3.6.8").file("etcd")
    assert "etcd Version: 3.6.8" in proc.run([etcd, "--version"], timeout=20).stdout
