"""One project: its folder, its matrix and the settings it is used with. Whoever needs several of them takes this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.paths import project_dir
from harness.spec.loader import load_spec, load_timeouts
from harness.spec.models import Spec, Timeouts
from harness.spec.settings import Settings


@dataclass(frozen=True)
class Project:
    """A folder with matrix/, vm-templates/, tests/cells/ and the product.

    directory: that folder.  spec: its matrix.  settings: of vmatrix.yml, the environment and the options.
    """

    directory: Path
    spec: Spec
    settings: Settings

    @staticmethod
    def load(settings: Settings) -> Project:
        """Load the project that this process works on; BadInput names all mistakes of the matrix."""
        directory = project_dir()
        return Project(directory, load_spec(matrix_dir()), settings)

    @property
    def timeouts(self) -> Timeouts:
        """Seconds of matrix/timeouts.yml, stretched by the setting timeout_scale."""
        return self.spec.timeouts.scaled(self.settings.timeout_scale)

    @property
    def product(self) -> Path:
        """The folder of the deployment code under test."""
        return self.directory / self.spec.product.directory


def timeouts_of(settings: Settings) -> Timeouts:
    """Return the stretched timeouts, for commands that need no more of the matrix; BadInput when the file is wrong."""
    return load_timeouts(matrix_dir()).scaled(settings.timeout_scale)


def matrix_dir() -> Path:
    """Return the folder of axes.yml and its like."""
    return project_dir() / "matrix"


def templates_dir() -> Path:
    """Return the folder of the machines' templates; recipes of disk images lie in images/ below it."""
    return project_dir() / "vm-templates"


def checks_dir() -> Path:
    """Return the folder of the check suites."""
    return project_dir() / "tests" / "cells"
