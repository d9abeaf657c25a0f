"""Whether the Secret and the ConfigMap that an import names exist: an importer without them waits for ever."""

from __future__ import annotations

from harness.cell.site import Site
from harness.errors import BadImage
from harness.kube.client import ApiFailure
from harness.kube.resources import CONFIG_MAP, SECRET, Resource
from harness.machines.kubevirt.manifests import GoldenImage


def refuse_missing(site: Site, image: GoldenImage) -> None:
    """Refuse an image whose Secret or ConfigMap is missing, as far as the job may tell.

    Raises:
        BadImage: one does not exist.
    """
    if image.certificates:
        command = "kubectl create configmap {} --from-file=ca.pem"
        _require(site, image, CONFIG_MAP, image.certificates, command)
    if image.credentials:
        command = "kubectl create secret generic {} --from-literal=accessKeyId=USER --from-literal=secretKey=PASSWORD"
        _require(site, image, SECRET, image.credentials, command)


def _require(site: Site, image: GoldenImage, resource: Resource, name: str, command: str) -> None:
    namespace = site.images_namespace
    try:
        there = _secret_exists(site, name) if resource is SECRET else site.cluster.get(resource, name, namespace)
    except ApiFailure as failure:
        if failure.forbidden:
            return
        raise
    if not there:
        raise BadImage(
            f"the {resource.kind} {namespace}/{name} that image {image.name} names in matrix/images.yml does not exist",
            hint=f"{command.format(name)} -n {namespace}",
        )


def _secret_exists(site: Site, name: str) -> bool:
    """Tell whether a Secret exists without reading it: one of its name can be made, or it cannot."""
    try:
        site.cluster.create(SECRET, SECRET.manifest(name, site.images_namespace, labels={}), dry_run=True)
    except ApiFailure as failure:
        if failure.exists:
            return True
        raise
    return False
