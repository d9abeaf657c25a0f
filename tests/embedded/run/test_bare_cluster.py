"""A run on a cluster without KubeVirt: everything that it lacks is said at once, and nothing is made."""

from __future__ import annotations

from pathlib import Path

from harness.infra.host import control_plane, processes
from harness.infra.host.folder import claim
from harness.until import Deadline
from tests.embedded.conftest import Instances
from tests.embedded.run.runs import vmatrix

UP_SECONDS = 120.0


def test_a_run_needs_kubevirt(instances: Instances, tmp_path: Path) -> None:
    provider = instances("nokv")
    layout = provider.layout
    found = claim(layout)
    for folder in (layout.run, layout.logs):
        folder.mkdir(parents=True)
    control_plane.ensure_credentials(layout, found.index)
    programs = control_plane.programs(layout, found.index, provider.host.config.binaries)
    processes.bring_up(layout, programs, deadline=Deadline.after(UP_SECONDS))
    mirror = {"VMATRIX_MIRROR_HTTP": "http://127.0.0.1:9", "VMATRIX_REGISTRY": "127.0.0.1:9"}
    options = ["--provider", "kubeconfig", "--kubeconfig", str(layout.kubeconfig)]
    ended = vmatrix("run", "--tier", "single", *options, cwd=tmp_path, env=mirror)
    assert ended.code == 2, ended
    assert ended.stderr.count("error (user): ") == ended.stderr.count("hint: ") == 1
    assert "things are missing" in ended.stderr
    assert "does not serve kubevirt.io/v1" in ended.stderr
    assert "does not serve cdi.kubevirt.io/v1beta1" in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    assert list(tmp_path.iterdir()) == []
