"""Cells of small machines on an infrastructure that fails: made, waited for and taken away by the harness itself."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from harness.cell import provision
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps, flatten
from harness.errors import VmatrixError
from harness.events import Recorder
from harness.infra.host.layout import Layout
from harness.kube import Cluster
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Cell, Machine, Phase, PlannedMachine
from harness.paths import project_dir
from harness.providers.embedded import EmbeddedProvider
from harness.spec import load_spec

HOST = "127.0.0.1"  # importers run on this host, too
# Deadlines in seconds: as short as an embedded infrastructure on a busy host can keep them.
SHORT: Mapping[str, float] = {
    "golden_image": 60.0,
    "golden_stall": 8.0,
    "clone": 60.0,
    "machine_address": 60.0,
    "machine_phase": 8.0,
    "unschedulable": 4.0,
    "ssh": 10.0,
    "collect": 20.0,
    "teardown": 60.0,
}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@contextmanager
def tiny_image(folder: Path) -> Iterator[GoldenImage]:
    """Serve a disk image of one MiB that nothing boots from."""
    content = secrets.token_bytes(4096) * 256
    digest = hashlib.sha256(content).hexdigest()
    (folder / "tiny.raw").write_bytes(content)
    with ThreadingHTTPServer((HOST, 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        url = f"http://{HOST}:{server.server_address[1]}/tiny.raw"
        yield GoldenImage(f"tiny-{digest[:12]}", url, f"sha256:{digest}", "16Mi", "debian")
        server.shutdown()


@dataclass(frozen=True)
class Ground:
    """The infrastructure, its administrator, an image that is there for all tests, and a test's folder."""

    provider: EmbeddedProvider
    cluster: Cluster
    image: GoldenImage
    folder: Path

    def site(
        self,
        seconds: Mapping[str, float] = {},
        *,
        cluster: Cluster | None = None,
        image: GoldenImage | None = None,
    ) -> Site:
        """Return the infra cluster as cells see it, with short deadlines; `seconds` changes some of them."""
        spec = load_spec(project_dir() / "matrix")
        return Site(
            cluster=cluster or self.cluster,
            spec=spec,
            timeouts=spec.timeouts.model_copy(update={**SHORT, **seconds}),
            mirror=self.provider.mirror(),
            guest_vars={},
            image=lambda _: image or self.image,
            storage_class=None,
            project=project_dir(),
            expiry_hours=1.0,
        )

    def fresh_image(self) -> GoldenImage:
        """Return the image under another name: one that has not been imported yet."""
        return replace(self.image, name=f"fresh-{secrets.token_hex(4)}")

    def life(self, site: Site, cell: Cell | None = None, run: str | None = None) -> Life:
        """Return the life of a cell, not begun."""
        lived = cell or cell_of(1)
        identity = run or secrets.token_hex(3)
        directory = self.folder / identity
        directory.mkdir(parents=True, exist_ok=True)
        attempt = Attempt(identity, lived, 1, directory / lived.id, site.namespace)
        return Life(site, attempt, Steps(Recorder(directory), lived.id, 1))

    def recorded(self, life: Life) -> list[dict[str, Any]]:
        """Return what the life wrote into its run's results."""
        lines = (self.folder / life.attempt.run / "results.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @contextmanager
    def befallen(self, life: Life, **faults: Mapping[str, Any]) -> Iterator[None]:
        """Have a cell's machines befallen by faults while the body runs; names are given with `_` in place of `-`."""
        rule = {
            "kind": "VirtualMachine",
            "namespace": f"*-{life.attempt.run}-*",
            "faults": {name.replace("_", "-"): dict(given) for name, given in faults.items()},
        }
        with self.scenario([rule]):
            yield

    @contextmanager
    def scenario(self, rules: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Have a scenario hold while the body runs."""
        with befalling(self.provider.layout, rules):
            yield


@contextmanager
def befalling(layout: Layout, rules: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Have a scenario of faults hold in an instance while the body runs."""
    path = layout.root / "faults.yml"
    written = path.with_suffix(".new")
    written.write_text(yaml.safe_dump(list(rules)), encoding="utf-8")
    written.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def without_disks(run: str, cells: str) -> Mapping[str, Any]:
    """Return the rule by which no disk is made of a run's cells, whose ids a glob picks."""
    return {"kind": "DataVolume", "namespace": f"vmatrix-{cells}-{run}-*", "faults": {"claim-pending": {}}}


def halted(folder: Path) -> Path:
    """Return a copy of the project's templates, below a folder, with machines that are never started."""
    project = folder / "project"
    templates = project / "vm-templates"
    templates.mkdir(parents=True, exist_ok=True)
    for template in (project_dir() / "vm-templates").glob("*.j2"):
        text = template.read_text(encoding="utf-8").replace("runStrategy: Once", "runStrategy: Halted")
        (templates / template.name).write_text(text, encoding="utf-8")
    return project


def cell_of(machines: int, *, cell: str = "chaos", memory_mib: int = 256) -> Cell:
    """Return a cell of small machines and one phase."""
    names = tuple(f"m-{n}" for n in range(machines))
    planned = tuple(PlannedMachine(name, ("node",), 1, memory_mib, 1, "tiny") for name in names)
    return Cell(cell, {"topology": "t"}, "fresh", (Phase("deploy", machines=names),), planned, {})


def told(error: VmatrixError) -> str:
    """Return all that a person is told of an error."""
    return f"{error.summary}\n{error.hint}\n{error.detail}"


def bring_up(life: Life) -> list[Machine]:
    """Make a cell's machines until they have addresses; nobody logs in."""
    try:
        return provision.bring_up(life.site, life.attempt, life.steps)
    except BaseExceptionGroup as several:
        raise flatten(several) from several
