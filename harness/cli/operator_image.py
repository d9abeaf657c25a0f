"""`vmatrix operator image`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from harness.artifacts.own import push as pushing
from harness.artifacts.own.push import check_name
from harness.artifacts.recipe import ArtifactLimits
from harness.artifacts.store import FILES, Store
from harness.cli.artifacts_progress import showing
from harness.errors import BadInput
from harness.paths import settings_dir
from harness.spec.project import timeouts_of
from harness.spec.settings import load_settings

out = Console(soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(image)


def image(
    push: Annotated[str, typer.Option(metavar="HOST[:PORT][/PATH]", help="Push it there, as PATH/vmatrix:TAG.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Push it under this tag, too; can be repeated.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Serve it in the registries of this host's infra clusters.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="The registry speaks plain HTTP, or its certificate is not trusted.")
    ] = False,
    user: Annotated[str, typer.Option(envvar="CI_REGISTRY_USER", help="User of the registry.")] = "",
    password: Annotated[
        str, typer.Option(envvar="CI_REGISTRY_PASSWORD", show_default=False, help="The user's password or token.")
    ] = "",
) -> None:
    """Make vmatrix's own image, for the operator, its executors and pipelines; print its name, size and digest."""
    if (tag or insecure) and not push:
        raise BadInput("--tag and --insecure say how the image is pushed; --push says where")
    if push:
        check_name(push)
    if push and bool(user) != bool(password):
        raise BadInput(f"--{'user' if user else 'password'} is given alone", hint="give both --user and --password")
    store = Store(limits=ArtifactLimits.of(timeouts_of(load_settings(settings_dir()).settings)))
    with showing(Console(stderr=True)) as progress:
        made = pushing.obtain_image(store, progress)
    name = f"{pushing.REPOSITORY}:{made.ref.version}"
    if push:
        login = pushing.Login(user, password)
        pushing.push(made, push.rstrip("/"), [made.ref.version, *(tag or [])], store, login=login, insecure=insecure)
    if publish:
        pushing.publish(made, store)
    out.print(f"reference  {push.rstrip('/') + '/' if push else ''}{name}", markup=False)
    out.print(f"size       {int(made.facts['size']) / 2**20:.0f} MiB", markup=False)
    out.print(f"digest     {made.facts['digest']}", markup=False)
    out.print(f"layout     {made.directory / FILES}", markup=False)
