"""`vmatrix operator manifests`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from harness.artifacts.own import push as pushing
from harness.artifacts.store import Store
from harness.errors import BadInput
from harness.files import write_atomically
from harness.operator import manifests as made
from harness.paths import packaged_dir
from harness.urls import is_image

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(manifests)


def manifests(
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE", help=f"Namespace of the operator and its clusters; default: {made.NAMESPACE}."
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The image, REGISTRY/PATH/vmatrix:TAG; or --registry.")
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="HOST[:PORT][/PATH]", help="Take the image that `vmatrix operator image --push` puts there."
        ),
    ] = None,
    apart: Annotated[bool, typer.Option("--apart", help="A Deployment and an account for each controller.")] = False,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", help="Look at all namespaces, by cluster roles.")
    ] = False,
    webhooks: Annotated[
        bool, typer.Option("--webhooks", help="Have mistakes refused at once, by webhooks that managers serve.")
    ] = False,
    host_network: Annotated[
        bool,
        typer.Option("--host-network", help="With --webhooks, if API servers do not reach addresses of pods."),
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Write deploy/operator instead of printing.")] = False,
) -> None:
    """Print all that runs the operator in a cluster, for `kubectl apply --server-side -f -`."""
    if write:
        if namespace or image or registry or apart or all_namespaces or webhooks or host_network:
            raise BadInput("--write writes deploy/operator as it is committed, without other options")
        for name, text in made.committed().items():
            path = packaged_dir() / "deploy" / "operator" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
            typer.echo(path)
        return
    if bool(image) == bool(registry):
        raise BadInput(
            "executors and managers need one image: pass --registry or --image, not both",
            hint="vmatrix operator image --push REGISTRY, then --registry REGISTRY",
        )
    if host_network and not webhooks:
        raise BadInput("--host-network is about webhooks", hint="add --webhooks, or leave it out")
    _refuse_wrong(image, namespace)
    name = image or pushing.pushed_name(registry or "", Store())
    wanted = made.Installation(namespace or made.NAMESPACE, name, apart, all_namespaces, webhooks, host_network)
    typer.echo(made.text(wanted.objects()), nl=False)


def _refuse_wrong(image: str | None, namespace: str | None) -> None:
    if image and not is_image(image):
        raise BadInput(f"--image {image!r} is not an image", hint="REGISTRY/PATH/vmatrix:TAG")
    if namespace is not None and not NAMESPACE.fullmatch(namespace):
        raise BadInput(f"--namespace {namespace!r} is not a name", hint="use lower-case letters, digits and hyphens")
