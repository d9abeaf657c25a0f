"""Another team's repository as a project: its files by links, with its product file where a project has it.

The team's pipeline needs only its playbooks and a product file; axes, topologies, scenarios and templates are the
packaged ones, unless the team has files of the same name in `matrix/` and `vm-templates/`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import BadInput

NOT_LINKED = frozenset((".git", ".job", "tests"))  # the checks are vmatrix's own, whatever the team has under this name
MATRIX, PRODUCT = "matrix", "product.yml"
JOB = ".job"  # says whose project it is


def assemble(checkout: Path, product: str, into: Path, *, job: str) -> Path:
    """Make the project and return it; anew for each job, but not beside a run that uses it.

    Args:
        checkout: the team's.
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
        if entry.name not in NOT_LINKED and entry.name != MATRIX and entry != into:
            (into / entry.name).symlink_to(entry)
    (into / MATRIX).mkdir()
    for entry in sorted((checkout / MATRIX).iterdir()) if (checkout / MATRIX).is_dir() else ():
        (into / MATRIX / entry.name).symlink_to(entry)
    _link(into / MATRIX / PRODUCT, file)
    (into / JOB).write_text(job, encoding="utf-8")
    return into


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
