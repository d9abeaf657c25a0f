"""What is to be kept in a guest, and what is told of it: pure, but for the look at the set itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.kube.applyset_member import ApplySetLook
from harness.kube.applyset_parent import ApplySetParent
from harness.kube.client import Json
from harness.kube.manifests import digest_of
from harness.operator.api.addons import AddonStatus, ClusterAddon
from harness.operator.api.resources import GROUP

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
        said = look.failures or look.left or look.waits
        applied = not look.failures and self.objects is not None
        return AddonStatus(
            name=self.name,
            source=source_digest(self.addon),
            digest=digest_of(list(self.objects or ())) if applied else before.digest if before is not None else None,
            objects=len(self.objects or ()),
            ready=not said,
            reason="NotApplied" if look.failures else "Pruning" if look.left else "NotReady" if said else "Ready",
            message=clipped("; ".join(said)),
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
    found = (before.get(name) or AddonStatus(name=name, reason="") for name in names)
    return [one.model_copy(update=told) for one in found]


def clipped(text: str) -> str:
    """Return a text that has room in a message."""
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 3]}..."
