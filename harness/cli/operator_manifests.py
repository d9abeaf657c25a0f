"""`vmatrix operator manifests`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import typer

from harness.artifacts.own import push as pushing
from harness.artifacts.store import Store
from harness.cli.options import takes
from harness.cli.output import tell_written
from harness.errors import BadInput
from harness.files import write_atomically
from harness.operator import manifests as made
from harness.paths import packaged_dir
from harness.urls import is_image, is_registry

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes()(manifests))


@dataclass(frozen=True)
class BuildRegistries:
    """Where base images of Deliveries may come from, as managers are told."""

    base_registry: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Registry that base images of Deliveries may come from; repeatable."),
    ] = None
    insecure_registry: Annotated[
        list[str] | None, typer.Option(metavar="HOST[:PORT]", help="One of these registries without TLS; repeatable.")
    ] = None

    def arguments(self) -> tuple[str, ...]:
        """Return the managers' arguments. Raises BadInput for what is not a registry."""
        registries = {"--base-registry": self.base_registry, "--insecure-registry": self.insecure_registry}
        pairs = [(option, each) for option, registry_names in registries.items() for each in registry_names or ()]
        for option, each in pairs:
            if not is_registry(each) or "/" in each:
                raise BadInput(
                    f"{option} {each!r} is not HOST[:PORT]", hint="write it without https:// and without a path"
                )
        return tuple(f"{option}={each}" for option, each in pairs)


@dataclass(frozen=True)
class WebhookOptions:
    """Whether managers serve webhooks, and at which addresses."""

    webhooks: Annotated[
        bool, typer.Option("--webhooks", help="Have mistakes refused at once, by webhooks that managers serve.")
    ] = False
    host_network: Annotated[
        bool,
        typer.Option("--host-network", help="With --webhooks, if API servers do not reach addresses of pods."),
    ] = False


def manifests(
    serving: WebhookOptions,
    registries: BuildRegistries,
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
    write: Annotated[bool, typer.Option("--write", help="Write deploy/operator instead of printing.")] = False,
) -> None:
    """Print all that runs the operator in a cluster, for `kubectl apply --server-side -f -`."""
    of_builds = registries.arguments()
    if write:
        if any((namespace, image, registry, apart, all_namespaces, serving.webhooks, serving.host_network, of_builds)):
            raise BadInput("--write writes deploy/operator as it is committed, without other options")
        _write_committed()
        return
    if bool(image) == bool(registry):
        raise BadInput(
            "executors and managers need one image: pass --registry or --image, not both",
            hint="vmatrix operator image --push REGISTRY, then --registry REGISTRY",
        )
    if serving.host_network and not serving.webhooks:
        raise BadInput("--host-network is about webhooks", hint="add --webhooks, or leave it out")
    _refuse_wrong(image, namespace)
    name = image or pushing.pushed_name(registry or "", Store())
    where, webhooks = namespace or made.NAMESPACE, (serving.webhooks, serving.host_network)
    installation = made.Installation(where, name, apart, all_namespaces, *webhooks, of_builds)
    typer.echo(made.text(installation.objects()), nl=False)


def _write_committed() -> None:
    texts = {packaged_dir() / "deploy" / "operator" / name: text for name, text in made.committed().items()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    tell_written(texts)


def _refuse_wrong(image: str | None, namespace: str | None) -> None:
    if image and not is_image(image):
        raise BadInput(f"--image {image!r} is not an image", hint="REGISTRY/PATH/vmatrix:TAG")
    if namespace is not None and not NAMESPACE.fullmatch(namespace):
        raise BadInput(f"--namespace {namespace!r} is not a name", hint="use lower-case letters, digits and hyphens")
