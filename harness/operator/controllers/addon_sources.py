"""The objects that an add-on with manifests consists of, from a ConfigMap or from a file that is verified."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from harness.artifacts.download import download
from harness.errors import BadInput, VmatrixError
from harness.kube.client import Cluster, Json
from harness.kube.manifests import objects_of
from harness.kube.resources import CONFIG_MAP
from harness.operator.api.addons import ClusterAddon

ENDINGS = (".yml", ".yaml")
MOST_BYTES = 32 << 20  # of a file: the definitions of the largest projects have some 5 MiB


class NoManifests(VmatrixError):
    """The manifests of an add-on cannot be read; what was applied of it stays as it is."""


class AddonSources:
    """Reads manifests. A file is fetched once: its checksum says that it is still the same."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._files: dict[str, str] = {}

    def objects(self, addon: ClusterAddon, namespace: str) -> list[Json]:
        """Return the objects of an add-on of a ClusterDeployment in a namespace, in the order of applying.

        Raises:
            NoManifests: what is wrong, with the field.
        """
        source, field = addon.manifests, f"spec.addons[{addon.name}].manifests"
        try:
            if source is not None and source.config_map is not None:
                return objects_of(self._config_map(source.config_map, namespace))
            if source is not None and source.url is not None and source.sha256 is not None:
                return objects_of({source.url: self._file(source.url, source.sha256)})
        except NoManifests:
            raise
        except VmatrixError as error:
            raise NoManifests(f"{field}: {error.summary}", hint=error.hint) from error
        raise NoManifests(f"{field}: no source", hint="set configMap, or url with sha256")

    def _config_map(self, name: str, namespace: str) -> dict[str, str]:
        found = self._cluster.get(CONFIG_MAP, name, namespace)
        if found is None:
            raise BadInput(f"there is no ConfigMap {name} in namespace {namespace}", hint="create it")
        texts = {**(found.get("data") or {})}
        for key, content in (found.get("binaryData") or {}).items():
            texts[key] = base64.b64decode(content).decode("utf-8", "replace")
        wanted = {f"ConfigMap {name}, {key}": texts[key] for key in sorted(texts) if key.endswith(ENDINGS)}
        if not wanted:
            raise BadInput(f"ConfigMap {name} has no key that ends with {' or '.join(ENDINGS)}", hint="add one")
        return wanted

    def _file(self, url: str, sha256: str) -> str:
        if sha256 not in self._files:
            with tempfile.TemporaryDirectory(prefix="vmatrix-addon-") as folder:
                path = Path(folder) / "manifests.yml"
                download(url, f"sha256:{sha256}", path, hint="set sha256 to that of the file", told=_refuse_large)
                self._files[sha256] = path.read_text(encoding="utf-8", errors="replace")
        return self._files[sha256]


def _refuse_large(so_far: int, announced: int | None) -> None:
    if max(so_far, announced or 0) > MOST_BYTES:
        raise BadInput(f"the file has more than {MOST_BYTES >> 20} MiB", hint="split it into several add-ons")
