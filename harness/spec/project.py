"""One project: its folder, its matrix and the settings it is used with. Whoever needs several of them takes this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput
from harness.files import write_atomically
from harness.paths import MATRIX, enclosing_project, named_project, overlaid, packaged_dir, project_dir
from harness.spec.loader import load_spec, load_timeouts
from harness.spec.models import Spec, Timeouts
from harness.spec.product_sources import located
from harness.spec.settings import Settings

TEMPLATES = "vm-templates"


@dataclass(frozen=True)
class Project:
    """What is tested, with what it is tested on: files of a folder, over those that ship with vmatrix.

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
        """The folder of the deployment code under test; a packaged product names it by an absolute path."""
        return self.directory / located(self.spec.product, self.directory).directory


def timeouts_of(settings: Settings) -> Timeouts:
    """Return the stretched timeouts, for commands that need no more of the matrix; BadInput when the file is wrong."""
    return load_timeouts(anywhere() / MATRIX).scaled(settings.timeout_scale)


def anywhere() -> Path:
    """Return the project, or outside of one the folder of what ships, for commands that need no project."""
    return named_project() or enclosing_project() or packaged_dir()


def matrix_dir() -> Path:
    """Return the folder of axes.yml and its like; what it lacks is packaged. BadInput outside of a project."""
    return project_dir() / MATRIX


def templates_dir() -> Path:
    """Return the folder of the machines' templates; recipes of disk images lie in images/ below it."""
    return anywhere() / TEMPLATES


def write_in_project(file: Path, text: str) -> None:
    """Write a file of the project, into the project itself: a link in its place is replaced, and not followed.

    Raises:
        BadInput: its folder is a link that leads out of the project, perhaps into vmatrix's own files.
    """
    project, folder = project_dir().resolve(), file.parent.resolve()
    if not folder.is_relative_to(project):
        raise BadInput(
            f"{file} is not written: {file.parent} leads to {folder}, which is no part of the project {project}",
            hint=f"replace the link {file.parent} by a folder; links to single files in it may stay",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)


def checks_dir() -> Path:
    """Return the folder of the check suites: the project's, or the packaged one where it has none."""
    return overlaid("tests", "cells")
