"""Whether the Secret and the ConfigMap that an import names are there: an importer without them waits for ever."""

from __future__ import annotations

from harness.cell.manifests import GoldenImage
from harness.cell.site import Site
from harness.errors import BadImage
from harness.kube.client import ApiFailure
from harness.kube.resources import CONFIG_MAP, SECRET


def refuse_missing(site: Site, image: GoldenImage) -> None:
    """Refuse an image whose Secret or ConfigMap is missing, as far as the job may tell.

    Raises:
        BadImage: one is not there.
    """
    namespace = site.images_namespace
    if image.certificates and _has_config_map(site, namespace, image.certificates) is False:
        raise _missing(
            image, "ConfigMap", image.certificates, namespace, "kubectl create configmap {} --from-file=ca.pem"
        )
    if image.credentials and _has_secret(site, namespace, image.credentials) is False:
        command = "kubectl create secret generic {} --from-literal=accessKeyId=USER --from-literal=secretKey=PASSWORD"
        raise _missing(image, "Secret", image.credentials, namespace, command)


def _missing(image: GoldenImage, kind: str, name: str, namespace: str, command: str) -> BadImage:
    return BadImage(
        f"the {kind} {namespace}/{name} that image {image.name} names in matrix/images.yml does not exist",
        hint=f"{command.format(name)} -n {namespace}",
    )


def _has_config_map(site: Site, namespace: str, name: str) -> bool | None:
    try:
        return site.cluster.get(CONFIG_MAP, name, namespace) is not None
    except ApiFailure as failure:
        if failure.forbidden:
            return None
        raise


def _has_secret(site: Site, namespace: str, name: str) -> bool | None:
    """Tell whether a Secret is there without reading it: one of its name can be made, or it cannot."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
    try:
        site.cluster.create(SECRET, body, dry_run=True)
    except ApiFailure as failure:
        if failure.forbidden:
            return None
        if failure.exists:
            return True
        raise
    return False
