"""Where things lie: cache and state by the XDG base directory rules, the project, and the files that ship with vmatrix.

A project is never the package: files that ship are defaults, which a project replaces or amends (`spec.layers`).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from harness.errors import BadInput
from harness.system import lexists

PROJECT = "VMATRIX_PROJECT"  # the variable that names the project, as the option --project does
PRODUCT = "VMATRIX_PRODUCT_FILE"  # the variable that names a product file, as the option --product-file does
SETTINGS, MATRIX = "vmatrix.yml", "matrix"  # a folder with one of these is a project
PACKAGED = Path(__file__).resolve().with_name("packaged")  # in a package that was built; pyproject.toml fills it


def _xdg(variable: str, default: str) -> Path:
    """Return a folder, which need not be there; OSError where something else is in its way."""
    value = os.environ.get(variable, "")
    folder = (Path(value) if value.startswith("/") else _home() / default) / "vmatrix"
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    return folder


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise BadInput(
            f"user {os.geteuid()} has no home directory: HOME is not set, and the user is in no list of users",
            hint="set HOME, or XDG_CACHE_HOME and XDG_STATE_HOME",
        ) from error


def cache_dir() -> Path:
    """Return the folder of everything that can be made again (artifacts, disk images, Go's caches)."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the folder of what describes running things (embedded infrastructures)."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def packaged_dir() -> Path:
    """Return the folder with the matrix/, vm-templates/, playbooks/ and tests/cells/ that ship with vmatrix.

    That is a folder of the package, or the checkout that an editable installation runs from.
    """
    return PACKAGED if PACKAGED.is_dir() else PACKAGED.parents[1]


def project_dir() -> Path:
    """Return the project: what --project or VMATRIX_PROJECT names, or the nearest one from the working directory up.

    With a product file of its own (`product_file`), a folder needs nothing else to be a project.

    Raises:
        BadInput: there is none.
    """
    found = named_project() or enclosing_project()
    if found is None:
        raise BadInput(
            f"this is not a project: neither {Path.cwd()} nor a folder above it has a {SETTINGS} or a {MATRIX}/ folder",
            hint="`vmatrix init` creates one; to use another, go there or name it: `vmatrix --project DIRECTORY ...`; "
            "with `vmatrix --product-file FILE ...`, any folder is one",
        )
    return found


def named_project() -> Path | None:
    """Return the project that --project or VMATRIX_PROJECT names, None without them. Raises BadInput if it is none."""
    named = os.environ.get(PROJECT, "")
    if not named:
        return None
    if not is_project(Path(named)) and not (os.environ.get(PRODUCT) and Path(named).is_dir()):
        raise BadInput(
            f"{named} is not a project: it has neither a {SETTINGS} nor a {MATRIX}/ folder",
            hint=f"--project and {PROJECT} name the folder of a project; `vmatrix init` creates one. With a product "
            f"file (--product-file, {PRODUCT}, in pipelines the input `product`), any folder is one",
        )
    return Path(named)


def product_file() -> Path | None:
    """Return the file that --product-file or VMATRIX_PRODUCT_FILE names in place of matrix/product.yml, if any.

    Raises:
        BadInput: it is not there.
    """
    named = os.environ.get(PRODUCT, "")
    if not named:
        return None
    if not os.path.isfile(named):
        raise BadInput(
            f"the product file {named} {'is not a file' if os.path.exists(named) else 'does not exist'}",
            hint=f"--product-file and {PRODUCT} name a file like matrix/product.yml, from the working directory",
        )
    return Path(named).resolve()


def enclosing_project() -> Path | None:
    """Return the working directory or the nearest folder above it that is a project, None without one.

    With a product file, the working directory is one if there is no other. Raises OSError as `is_project`, of the
    working directory: a matrix/ above it that this user may not read is somebody else's, such as /home/matrix.
    """
    here = Path.cwd()
    alone = here if os.environ.get(PRODUCT) else None
    return here if is_project(here) else next((folder for folder in here.parents if _is_open_project(folder)), alone)


def is_project(folder: Path) -> bool:
    """Tell whether a folder is a project; a folder matrix/ without YAML files may be anything.

    Raises:
        OSError: nobody can tell: this user may not read its matrix/.
    """
    if lexists(folder / SETTINGS):
        return True
    with suppress(FileNotFoundError, NotADirectoryError):
        return any(name.endswith(".yml") for name in os.listdir(folder / MATRIX))
    return False


def _is_open_project(folder: Path) -> bool:
    with suppress(OSError):
        return is_project(folder)
    return False


def settings_dir() -> Path:
    """Return the folder of vmatrix.yml: the working directory if it has one, or else the project's, if there is one."""
    here = Path.cwd()
    return here if lexists(here / SETTINGS) else named_project() or enclosing_project() or here


def overlaid(*parts: str) -> Path:
    """Return a file or folder of the project by its path, or the packaged one where the project has none of its own.

    Raises:
        OSError: nobody can tell whether it has.
    """
    own = (named_project() or enclosing_project() or packaged_dir()).joinpath(*parts)
    return own if lexists(own) else packaged_dir().joinpath(*parts)
