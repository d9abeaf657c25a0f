"""`vmatrix conformance list | export`: the specs of a Kubernetes version, and a run of them for others to read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.artifacts.store import Store
from harness.cli import options
from harness.cli.artifacts_progress import showing
from harness.cli.plain import CommandSet
from harness.paths import settings_dir
from harness.report.submission import Submission, read_product, write_submission
from harness.rundir import RunDir
from harness.spec.settings import load_settings
from harness.spec.suites import CERTIFICATION
from harness.streams import plain_console
from harness.validate.conformance.upstream import as_text, chosen, listed_images, listed_specs, load_selection
from harness.validate.expected import minor_of

app = CommandSet(no_args_is_help=True, help="Upstream's own specs: list them, and export a run of them.")


@app.command("list")
def list_(
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Kubernetes version of the catalogue, such as 1.36.3.")
    ],
    images: Annotated[bool, typer.Option("--images", help="The images that specs run, instead of the specs.")] = False,
) -> None:
    """Print the specs that suites run, as e2e.test of a version names them: the file upstream/MINOR.yml."""
    with showing(plain_console(stderr=True, soft_wrap=False)) as progress:
        e2e_test = Store().obtain("e2e.test", version, progress).file("e2e.test")
    if images:
        text = "".join(f"    - {image}\n" for image in sorted(listed_images(e2e_test)))
    else:
        text = as_text(minor_of(version), version, chosen(listed_specs(e2e_test), load_selection()))
    typer.echo(text, nl=False)


@app.command()
def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run, by its id or its directory.", autocompletion=options.runs)
    ],
    cell: Annotated[
        str,
        typer.Argument(
            metavar="CELL", help="Cell in which the suite certification ran.", autocompletion=options.planned
        ),
    ],
    product: Annotated[Path, typer.Option(metavar="FILE", help="PRODUCT.yaml of your product.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Directory to create.")],
) -> None:
    """Write what CNCF's conformance programme takes: README.md, PRODUCT.yaml, e2e.log, junit_01.xml.

    A run in which not every spec of the set passed is refused.
    """
    directory = Path(run) if Path(run).is_dir() else RunDir.of(load_settings(settings_dir()).settings.runs, run).path
    product_file = read_product(product)
    checks = RunDir(directory.resolve()).attempt(cell).checks / CERTIFICATION
    done = write_submission(Submission.of(RunDir(directory.resolve()), cell, checks), product_file, output)
    plain_console().print(f"written: {done}, {len(list(done.iterdir()))} files")
