"""What every measurement stands on: the settings, the cell, and an embedded infrastructure of the bench's own."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import providers
from harness.artifacts import refs
from harness.artifacts.disk import catalogue
from harness.artifacts.disk.cache import ImageCache
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import BadInput
from harness.events import Recorder
from harness.infra.host.layout import Layout, layout_of
from harness.machines.reach.ssh import close_connections, control_directory
from harness.model import Cell
from harness.paths import project_dir
from harness.plan.tiers import tier_cells
from harness.proc import Completed, run
from harness.providers.on_host import KUBERNETES
from harness.session.plan import ALPHABET, RUN_ID_LENGTH
from harness.spec import Spec, load_spec
from harness.spec.project import Project
from harness.spec.settings import Settings, load_settings

TIER = "smoke"
TOPOLOGY = "cp1-w1"
COMMAND_SECONDS = 1800.0  # of one vmatrix command: an upper bound, never what is measured


@dataclass(frozen=True)
class Ground:
    """directory: gets what the measured runs leave behind."""

    settings: Settings
    spec: Spec
    cell: Cell
    directory: Path
    say: Callable[[str], None]
    used: list[str]

    @property
    def layout(self) -> Layout:
        """Return where the bench's infrastructure lies."""
        return layout_of(self.settings.infra_name, "embedded")

    def run_id(self) -> str:
        """Return the id of a further run; it is remembered, so that its connections are closed at the end."""
        self.used.append("".join(secrets.choice(ALPHABET) for _ in range(RUN_ID_LENGTH)))
        return self.used[-1]


def lay(name: str, directory: Path, say: Callable[[str], None]) -> Ground:
    """Load settings and matrix; touch nothing.

    Raises:
        BadInput: there is an infrastructure of that name (it could not be measured coming up), or no such cell.
    """
    if layout_of(name, "embedded").root.exists():
        raise BadInput(
            f"an embedded infrastructure {name!r} exists already",
            hint=f"vmatrix infra down --infra-name {name}, or --name",
        )
    return stand(name, directory, say)


def stand(name: str, directory: Path, say: Callable[[str], None]) -> Ground:
    """Load settings and matrix, whether or not there is an infrastructure of that name.

    Raises:
        BadInput: the matrix has no cell to measure.
    """
    settings = load_settings(Path.cwd(), options={"provider": "embedded", "infra_name": name}).settings
    spec = load_spec(project_dir() / "matrix")
    cells = [c for c in tier_cells(spec, TIER, "embedded") if c.values["topology"] == TOPOLOGY]
    if not cells:
        raise BadInput(f"the tier {TIER} has no cell of the topology {TOPOLOGY}", hint="see matrix/tiers.yml")
    return Ground(settings, spec, cells[0], directory, say, [])


def warm(ground: Ground) -> None:
    """Have every artifact and disk image in the cache, so that no figure holds a build or a download."""
    store = providers.store_of(ground.settings, ground.spec.timeouts)
    wanted = refs.for_cell(store.catalogue, ground.cell.vars, infra_version=KUBERNETES)
    store.ensure((*wanted, *refs.pods(store.catalogue, KUBERNETES)), providers.spoken(ground.say))
    images = catalogue.load(project_dir() / "matrix" / "images.yml")
    for name in dict.fromkeys(m.image for m in ground.cell.machines):
        ImageCache().ensure(images.find(name), ground.say)


def vmatrix(*words: str, on_line: Callable[[str], None] | None = None) -> Completed:
    """Run a vmatrix command as a person would; the caller looks at its status.

    Raises:
        CommandFailed: it cannot be started, or does not end.
    """
    program = Path(sys.executable).parent / "vmatrix"
    return run([program, *words], timeout=COMMAND_SECONDS, check=False, on_line=on_line)


def open_site(ground: Ground, cells: Sequence[Cell] = ()) -> Site:
    """Return the bench's infrastructure as cells see it, with what these need of it; its own cell for none."""
    project = Project(project_dir(), ground.spec, ground.settings)
    return providers.open_site(project, tuple(cells) or (ground.cell,), progress=ground.say)


def life(ground: Ground, site: Site, cell: Cell) -> Life:
    """Return the life of a fresh attempt at a cell, in a run of its own."""
    run_id = ground.run_id()
    directory = ground.directory / run_id
    directory.mkdir(parents=True)
    attempt = Attempt(run_id, cell, 1, directory / cell.id)
    return Life(site, attempt, Steps(Recorder(directory), cell.id, 1))


def clear(ground: Ground) -> Completed:
    """Take the infrastructure away, and the connections of runs that were cut short."""
    for run_id in ground.used:
        close_connections(control_directory(run_id, ground.cell.id))
    return vmatrix("infra", "down", "--name", ground.settings.infra_name)
