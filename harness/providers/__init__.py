"""Providers of infra clusters: a registry by name, and the site that a run's cells see.

What is here is loaded when it is asked for: many commands need the registry alone, and all of it takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.providers.registry import holder, machines_like, named, names, of

if TYPE_CHECKING:
    from harness.providers.definition import Definition, InstanceProvider, Opening
    from harness.providers.kubeconfig import NAME as KUBECONFIG
    from harness.providers.kubeconfig import use_of
    from harness.providers.offered import offer_of, refuse_unprovided, refuse_unusable
    from harness.providers.on_host import KUBERNETES, take_down
    from harness.providers.site import (
        coming,
        first_look,
        golden_image,
        image_findings,
        image_mirror,
        join_site,
        keeper,
        kubectl,
        open_cluster,
        open_site,
        pin_releases,
        spoken,
        store_of,
        trial_of,
    )

SITE = (
    *("coming", "first_look", "golden_image", "image_findings", "image_mirror", "join_site", "keeper"),
    *("kubectl", "open_cluster", "open_site", "pin_releases", "spoken", "store_of", "trial_of"),
)
LATER = {
    **dict.fromkeys(("Definition", "InstanceProvider", "Opening"), "definition"),
    **dict.fromkeys(("offer_of", "refuse_unprovided", "refuse_unusable"), "offered"),
    **dict.fromkeys(("KUBERNETES", "take_down"), "on_host"),
    **dict.fromkeys(SITE, "site"),
    **dict.fromkeys(("KUBECONFIG", "use_of"), "kubeconfig"),
}

__all__ = [
    "KUBECONFIG",
    "KUBERNETES",
    "Definition",
    "InstanceProvider",
    "Opening",
    "coming",
    "first_look",
    "golden_image",
    "holder",
    "image_findings",
    "image_mirror",
    "join_site",
    "keeper",
    "kubectl",
    "machines_like",
    "named",
    "names",
    "of",
    "offer_of",
    "open_cluster",
    "open_site",
    "pin_releases",
    "refuse_unprovided",
    "refuse_unusable",
    "spoken",
    "store_of",
    "take_down",
    "trial_of",
    "use_of",
]


def __getattr__(name: str) -> Any:
    """Return one of the names above from its module; kept, so that it is looked for once."""
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{LATER[name]}")
    found = getattr(module, "NAME" if name == "KUBECONFIG" else name)
    globals()[name] = found
    return found
