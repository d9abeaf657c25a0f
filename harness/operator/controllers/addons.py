"""Add-ons: what a guest has to have besides what playbooks deploy, and whether that is still there.

A guest is looked at every half a minute, and after every change of its objects here. Each look brings everything up to
date from what is there, so it does not matter what was missed. An entry of the status stands for an add-on from before
its first object is made until its last one is gone. While an operation runs, guests are left alone.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.download import download
from harness.errors import BadInput, VmatrixError
from harness.kube.applyset import ApplySet, ApplySetLook, ApplySetParent, Known, title
from harness.kube.client import Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.manifests import digest_of, objects_of
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import (
    API_SERVICE,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CRD,
    DAEMON_SET,
    DEPLOYMENT,
    INGRESS_CLASS,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    Resource,
)
from harness.kube.rollout import waits_for
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.addons import BUILT_IN, MISSING, AddonStatus, ClusterAddon
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, GROUP
from harness.operator.api.rules import read, variable
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import of_etcd
from harness.operator.controllers.guest import GuestAccess
from harness.operator.decide.variables import load_releases

ADDON_LABEL = f"{GROUP}/addon"
MOST_WORDS = 1024  # characters of a message
TOOLING = "vmatrix/v1.0.0"  # the version of this way to keep a set
PARENTS = "kube-system"  # every cluster has it, and nobody deletes it


@dataclass(frozen=True)
class WantedAddon:
    """An add-on with manifests.

    addon: its entry in the spec, None once it was removed.  objects: None where they cannot be read: `trouble`.
    """

    name: str
    addon: ClusterAddon | None = None
    objects: Sequence[Json] | None = ()
    trouble: str = ""

    @property
    def parent(self) -> ApplySetParent:
        """Return what its objects are known by."""
        return ApplySetParent(f"vmatrix-addon-{self.name}", PARENTS, TOOLING)

    @property
    def manager(self) -> str:
        """Return the name under which its fields are held: another add-on's are other people's."""
        return f"vmatrix-addon-{self.name}"

    @property
    def spaces(self) -> frozenset[str]:
        """Return the namespaces that it needs."""
        within = (obj["metadata"].get("namespace") or "default" for obj in self.objects or ())
        return frozenset({*within, *(o["metadata"]["name"] for o in self.objects or () if o["kind"] == "Namespace")})

    def state(self, look: ApplySetLook, before: AddonStatus | None) -> AddonStatus | None:
        """Return what is told after a look; None once nothing is left of what was removed."""
        if self.addon is None and not (look.left or look.failures):
            return None
        troubles = look.failures or look.left or look.waits
        applied = not look.failures and self.objects is not None
        return AddonStatus(
            name=self.name,
            source=source_digest(self.addon),
            digest=digest_of(list(self.objects or ())) if applied else before.digest if before is not None else None,
            objects=len(self.objects or ()),
            ready=not troubles,
            reason="NotApplied" if look.failures else "Pruning" if look.left else "NotReady" if troubles else "Ready",
            message=clipped("; ".join(troubles)),
        )

    def unread(self, before: AddonStatus | None) -> AddonStatus:
        """Return what is told while its manifests cannot be read."""
        kept = before.model_dump() if before is not None else {}
        told = {"name": self.name, "source": source_digest(self.addon), "ready": False, "reason": "NoManifests"}
        return AddonStatus.model_validate({**kept, **told, "message": clipped(self.trouble)})


def source_digest(addon: ClusterAddon | None) -> str | None:
    """Return the digest of where an add-on comes from."""
    return digest_of([addon.model_dump(mode="json")]) if addon is not None else None


def needed(others: Sequence[WantedAddon], namespace: str) -> bool:
    """Tell whether add-ons need a namespace; those whose manifests cannot be read may."""
    return any(other.objects is None or namespace in other.spaces for other in others)


def unknown(before: Mapping[str, AddonStatus], names: Sequence[str], why: str) -> list[AddonStatus]:
    """Return what is told of add-ons while their guest does not answer."""
    told = {"ready": None, "reason": "Unreachable", "message": clipped(why)}
    known = (before.get(name) or AddonStatus(name=name, reason="") for name in names)
    return [state.model_copy(update=told) for state in known]


def clipped(text: str) -> str:
    """Return a text that has room in a message."""
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 3]}..."


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
        config_map = self._cluster.get(CONFIG_MAP, name, namespace)
        if config_map is None:
            raise BadInput(f"there is no ConfigMap {name} in namespace {namespace}", hint="create it")
        texts = {**(config_map.get("data") or {})}
        for key, content in (config_map.get("binaryData") or {}).items():
            texts[key] = base64.b64decode(content).decode("utf-8", "replace")
        texts_by_place = {f"ConfigMap {name}, {key}": texts[key] for key in sorted(texts) if key.endswith(ENDINGS)}
        if not texts_by_place:
            raise BadInput(f"ConfigMap {name} has no key that ends with {' or '.join(ENDINGS)}", hint="add one")
        return texts_by_place

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


Place = tuple[Resource, str, str]  # kind, namespace ("" for none), name
SYSTEM, STORAGE = "kube-system", "local-path-storage"
METALLB = "metallb-system"
METALLB_KINDS = (
    *("bfdprofiles", "bgpadvertisements", "bgppeers", "communities", "configurationstates", "ipaddresspools"),
    *("l2advertisements", "servicebgpstatuses", "servicel2statuses"),
)
METRICS, LOCAL_PATH = "metrics-server", "local-path-provisioner"
OBJECTS: Mapping[str, tuple[Place, ...]] = {
    METRICS: (
        (DEPLOYMENT, SYSTEM, METRICS),
        (SERVICE, SYSTEM, METRICS),
        (SERVICE_ACCOUNT, SYSTEM, METRICS),
        (API_SERVICE, "", "v1beta1.metrics.k8s.io"),
        (ROLE_BINDING, SYSTEM, f"{METRICS}-auth-reader"),
        (CLUSTER_ROLE, "", "metrics-reader"),
        (CLUSTER_ROLE, "", METRICS),
        (CLUSTER_ROLE_BINDING, "", f"{METRICS}-auth-delegator"),
        (CLUSTER_ROLE_BINDING, "", METRICS),
    ),
    LOCAL_PATH: (
        (DEPLOYMENT, STORAGE, LOCAL_PATH),
        (CONFIG_MAP, STORAGE, "local-path-config"),
        (SERVICE_ACCOUNT, STORAGE, LOCAL_PATH),
        (STORAGE_CLASS, "", "local-path"),
        (ROLE, STORAGE, LOCAL_PATH),
        (ROLE_BINDING, STORAGE, LOCAL_PATH),
        (CLUSTER_ROLE, "", LOCAL_PATH),
        (CLUSTER_ROLE_BINDING, "", LOCAL_PATH),
    ),
    "metallb": (
        *((CRD, "", f"{plural}.metallb.io") for plural in METALLB_KINDS),
        *(
            (kind, METALLB, name)
            for name in ("controller", "speaker")
            for kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING)
        ),
        *(
            (kind, "", f"{METALLB}:{name}")
            for name in ("controller", "speaker")
            for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
        ),
        (CONFIG_MAP, METALLB, "metallb-excludel2"),
        (DEPLOYMENT, METALLB, "controller"),
        (DAEMON_SET, METALLB, "speaker"),
    ),
    "kube-router": (
        (SERVICE_ACCOUNT, SYSTEM, "kube-router"),
        (CLUSTER_ROLE, "", "kube-router"),
        (CLUSTER_ROLE_BINDING, "", "kube-router"),
        (DAEMON_SET, SYSTEM, "kube-router"),
    ),
    "traefik": (
        (INGRESS_CLASS, "", "traefik"),
        (SERVICE_ACCOUNT, "traefik", "traefik"),
        (CLUSTER_ROLE, "", "traefik"),
        (CLUSTER_ROLE_BINDING, "", "traefik"),
        (DAEMON_SET, "traefik", "traefik"),
    ),
}


def look_at(guest: Cluster, name: str, sequence: int) -> AddonStatus:
    """Return how a built-in add-on is in a guest.

    Args:
        sequence: of the last operation: what is gone now was not made by it.
    """
    gone, waits = [], []
    for kind, namespace, object_name in OBJECTS[name]:
        obj = guest.get(kind, object_name, namespace or None)
        if obj is None:
            gone.append(title(kind.manifest(object_name, namespace, labels={})))
        elif why := waits_for(obj):
            waits.append(f"{title(obj)}: {why}")
    if gone:
        message = f"gone: {', '.join(gone)}"
        return AddonStatus(name=name, ready=False, reason=MISSING, message=message, sequence=sequence)
    if waits:
        return AddonStatus(name=name, ready=False, reason="NotReady", message="; ".join(waits)[:1024])
    return AddonStatus(name=name, ready=True, reason="Ready")


COMPONENT = "addons"
Before = Mapping[str, AddonStatus]


class AddonLooks:
    """Looks, each of which remembers what it has found for the next one."""

    def __init__(self, context: OperatorContext) -> None:
        self._events = context.events
        self._access = GuestAccess(context)
        self._sources = AddonSources(context.cluster)
        self._known: dict[tuple[Key, str], Known] = {}

    def forget(self, key: Key) -> None:
        """Forget a cluster that is gone."""
        for at in [at for at in self._known if at[0] == key]:
            del self._known[at]

    def look(self, deployment: Json, wish: ClusterDeployment, cluster: Json, before: Before) -> dict[str, AddonStatus]:
        """Look at a cluster; return what is told of its add-ons, by name, without those of which nothing is left."""
        key = key_of(deployment)
        own = [self._wanted(addon, key[0]) for addon in wish.spec.addons if addon.manifests is not None]
        stay = {addon.name for addon in own} | set(BUILT_IN)
        own += [WantedAddon(name) for name in before if name not in stay]
        built = built_in(wish, cluster)
        try:
            with self._access.open(key) as guest:
                sequence = dig(cluster, "status", "sequence") or 0
                states = [look_at(guest, name, sequence) for name in built]
                for addon in own:
                    look = self._bring(guest, key, addon, own)
                    told = (
                        addon.state(look, before.get(addon.name))
                        if look is not None
                        else addon.unread(before.get(addon.name))
                    )
                    self._say(deployment, addon, look, before.get(addon.name))
                    states += [told] if told is not None else []
        except VmatrixError as error:
            states = unknown(before, [*built, *(addon.name for addon in own)], error.summary)
        return {state.name: state for state in states}

    def _wanted(self, addon: ClusterAddon, namespace: str) -> WantedAddon:
        try:
            return WantedAddon(addon.name, addon, self._sources.objects(addon, namespace))
        except NoManifests as error:
            return WantedAddon(addon.name, addon, None, f"{error.summary}: {error.hint}")

    def _bring(self, guest: Cluster, key: Key, addon: WantedAddon, own: Sequence[WantedAddon]) -> ApplySetLook | None:
        """Bring one add-on up to date; return None where nobody knows what it consists of."""
        if addon.objects is None:
            return None
        others = [other for other in own if other is not addon]
        known = self._known.setdefault((key, addon.name), {})
        applied = ApplySet(guest, addon.parent, addon.manager, known)
        labels = {ADDON_LABEL: addon.name, LABEL_MANAGED: MANAGED_BY}
        return applied.bring(addon.objects, labels, lambda namespace: needed(others, namespace))

    def _say(self, deployment: Json, addon: WantedAddon, look: ApplySetLook | None, before: AddonStatus | None) -> None:
        if look is not None and look.changed:
            again = before is not None and before.digest == digest_of(list(addon.objects or ()))
            reason, word = ("AddonRepaired", "put back") if again else ("AddonApplied", "applied")
            text = f"add-on {addon.name}: {word} {', '.join(look.changed)}"
            self._events.normal(deployment, reason, text, component=COMPONENT)


def built_in(wish: ClusterDeployment, cluster: Json) -> list[str]:
    """Return the add-ons that vmatrix's playbooks have deployed; others' playbooks make them as they like."""
    made = dig(cluster, "status", "applied", "variables") or {}
    own = wish.spec.playbooks.product is None
    return [a.name for a in wish.spec.addons if own and a.manifests is None and made.get(variable(a.name))]


LOOK_SECONDS = 30.0  # pacing: what is deleted or changed by hand is put back within a minute
SOON_SECONDS = 5.0  # pacing: while something comes to be or goes
WORKERS = 4  # a guest that does not answer holds one for some seconds


class Addons:
    """Keeps the add-ons of each cluster."""

    def __init__(self, context: OperatorContext) -> None:
        self._looks = AddonLooks(context)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self.controller = Controller("addons", self.reconcile, workers=WORKERS)
        follow(self._clusters, self.controller.queue)
        follow(self._deployments, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at the add-ons of one cluster."""
        deployment, cluster = self._deployments.get(*key), self._clusters.get(*key)
        gone = deployment is None or cluster is None or deleting(deployment) or deleting(cluster)
        if deployment is None or cluster is None or gone or of_etcd(cluster):
            self._looks.forget(key)
            return None
        wish, mistakes = read(deployment, load_releases().kubernetes, creating=False)
        status = cluster.get("status") or {}
        before = {state["name"]: AddonStatus.model_validate(state) for state in status.get("addons") or []}
        if wish is None or mistakes or wish.spec.paused or status.get("operation"):
            return None
        if not status.get("applied"):
            self._write(cluster, {})
            return None
        fresh = [a.name for a in wish.spec.addons if a.manifests is not None and a.name not in before]
        if fresh:  # from now on they are looked for, whatever happens to this manager
            begun = {name: AddonStatus(name=name, ready=False, reason="Applying") for name in fresh}
            self._write(cluster, {**before, **begun})
            return 0.0
        if not (wish.spec.addons or before):
            return None
        after = self._looks.look(deployment, wish, cluster, before)
        self._write(cluster, after)
        return LOOK_SECONDS if all(state.ready for state in after.values()) else SOON_SECONDS

    def _write(self, cluster: Json, states: Mapping[str, AddonStatus]) -> None:
        """Write what is told, if it is something else."""
        made = [state.model_dump(mode="json", by_alias=True, exclude_none=True) for state in states.values()]
        if made != (dig(cluster, "status", "addons") or []):
            self._clusters.merge_status(cluster, {"addons": made or None})


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Addons(context).controller)
