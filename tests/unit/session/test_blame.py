"""Whose fault a failed check is, by what it ended with: the table of docs/checks.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import Blame, InfraError, InfraRetriable, ProductError
from harness.kube.failures import ApiFailure, Overwhelmed, Unreachable
from harness.kube.tunnels import note
from harness.session.blame import blame_of, cut_off
from harness.until import TimedOut

SECONDS = 600.0  # only so that a pytest that hangs ends some time
CONFTEST = """
from pathlib import Path
from types import SimpleNamespace
import pytest
from rich.console import Console
from harness.model import Cell, Phase
from harness.plugin.state import CELLS, PLAN
from harness.session.cells import Cells
from harness.spec.models.leaves import ProductChecks
from harness.until import Deadline, NotYet, until

CELL = Cell("cell-1", {}, "fresh", (Phase("deploy"),), (), {})

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    product = SimpleNamespace(checks=ProductChecks())
    project = SimpleNamespace(spec=SimpleNamespace(product_of=lambda values: product))
    plan = SimpleNamespace(cells=(CELL,), after=None, suites=lambda: None, project=project, directory=Path("results"))
    opened = Cells(plan, open_site=lambda: None, console=Console(quiet=True))
    opened._lives[CELL.id] = SimpleNamespace(
        machines_changed=lambda _: "__CHANGED__", guests=[], checks_failed=[], attempt=SimpleNamespace(number=1)
    )
    config.stash[PLAN], config.stash[CELLS] = plan, opened

@pytest.fixture
def probes():
    return until(lambda: NotYet("not ready: probe on w-0"), deadline=Deadline.after(0), what="two probe pods")
"""
CHECK = "def test_pods_reach_pods(cell, probes):\n    pass\n"
FORBIDDEN = ApiFailure(403, "Forbidden", "pods is forbidden", [], request="GET /api/v1/pods")


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (TimedOut("two probe pods on each of cp-0, w-0 to be ready"), Blame.PRODUCT),
        (FORBIDDEN, Blame.PRODUCT),
        (Overwhelmed(503, "", "no endpoints", [], request="GET /apis/metrics.k8s.io"), Blame.PRODUCT),
        (Unreachable("GET https://10.0.0.1:6443/livez: connection refused"), Blame.PRODUCT),
        (ProductError("the guest's API server does not answer"), Blame.PRODUCT),
        (InfraError("cannot log in to w-0"), Blame.INFRA),
        (InfraRetriable("the image registry 10.0.0.1:5000 does not answer"), Blame.INFRA),
        (KeyError("items"), Blame.HARNESS),
        (None, Blame.HARNESS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_an_error_of_a_check_or_of_its_own_fixture(error: BaseException | None, blame: Blame) -> None:
    assert blame_of(error, asserted=False) is blame
    assert blame_of(error, asserted=True) is Blame.PRODUCT


def test_a_tunnel_that_has_just_broken_explains_a_silent_api(tmp_path: Path) -> None:
    given: dict[str, object] = {
        "kubeconfig": "",
        "context": None,
        "namespace": "n",
        "instances": {},
        "log": str(tmp_path / "log"),
    }
    (tmp_path / "tunnels").write_text(json.dumps(given), encoding="utf-8")
    assert cut_off(None) == ""
    assert cut_off(tmp_path / "tunnels") == ""
    note(tmp_path / "log", "10.0.0.2", 6443, "virt-api is gone")
    assert cut_off(tmp_path / "tunnels") == "the tunnel to a machine broke: virt-api is gone"


@pytest.mark.parametrize(("changed", "blame"), [("", "product"), ("machine w-0 was evicted", "infra")])
def test_a_check_whose_own_fixture_waits_in_vain(tmp_path: Path, changed: str, blame: str) -> None:
    (tmp_path / "network").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("__CHANGED__", changed), encoding="utf-8")
    (tmp_path / "network" / "test_it.py").write_text(CHECK, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    found = tmp_path / "results" / "results.jsonl"
    assert found.exists(), done.stdout + done.stderr
    (check,) = (json.loads(line) for line in found.read_text(encoding="utf-8").splitlines())
    assert (check["suite"], check["outcome"], check["blame"]) == ("network", "failed", blame)
    assert "not ready: probe on w-0" in check["detail"]
    assert changed in check["detail"]
