"""Another team's product under vmatrix's matrix: a project put together from two checkouts, by links alone.

The team's pipeline needs only its playbooks and a product file; axes, topologies, scenarios, suites and templates are
vmatrix's own, unless the team has files of the same name in its `matrix/`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import BadInput

OURS = ("tests", "vm-templates", "pyproject.toml")  # what vmatrix runs with, whatever the team has under these names
# would change how checks run
NOT_THEIRS = frozenset((".git", ".job", "conftest.py", "pytest.ini", "setup.cfg", "tox.ini"))
MATRIX, PRODUCT = "matrix", "product.yml"
JOB = ".job"  # says whose project it is


def assemble(home: Path, checkout: Path, product: str, into: Path, *, job: str) -> Path:
    """Make the project and return it; anew for each job, but not beside a run that uses it.

    Args:
        home: vmatrix's checkout.  checkout: the team's.
        product: its product file, relative to the checkout, as is the playbooks' folder that it names.
        into: where; nothing but such a project may lie there.  job: its id.

    Raises:
        BadInput: there is no such product file.
    """
    file = (checkout / product).resolve()
    if not file.is_file():
        raise BadInput(
            f"the product file {product} does not exist in {checkout}",
            hint="the template's input `product` is relative to the repository; docs/gitlab.md shows one",
        )
    if (into / JOB).is_file() and (into / JOB).read_text(encoding="utf-8") == job:
        return into
    if into.exists():
        shutil.rmtree(into)
    into.mkdir(parents=True)
    for entry in sorted(checkout.iterdir()):
        if entry.name not in NOT_THEIRS and entry.name not in OURS and entry.name != MATRIX and entry != into:
            (into / entry.name).symlink_to(entry)
    for name in OURS:
        (into / name).symlink_to(home / name)
    (into / MATRIX).mkdir()
    for folder in (home / MATRIX, checkout / MATRIX):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            _link(into / MATRIX / entry.name, entry)
    _link(into / MATRIX / PRODUCT, file)
    (into / JOB).write_text(job, encoding="utf-8")
    return into


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
