"""Providers of infra clusters: the registry of them by name, and the site that a run's cells see.

What is here is loaded when it is asked for: many commands need the registry alone, and all of it takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_args

from harness.errors import BadInput
from harness.spec.renamed import current_provider
from harness.spec.settings import Settings

LIKE_OTHERS = frozenset({"kind"})  # whose machines are like another provider's, as its instance was made


def names() -> tuple[str, ...]:
    """Return the names of all providers, the default first."""
    return get_args(Settings.model_fields["provider"].annotation)


def named(name: str) -> Definition:
    """Return a provider's definition. Raises BadInput when no provider has that name."""
    name = str(current_provider(name, "--provider"))
    if name not in names():
        raise BadInput(f"provider {name!r} does not exist", hint=f"use --provider {' or '.join(names())}")
    definition = import_module(f"harness.providers.{name}").PROVIDER
    return cast("Definition", definition)


def of(settings: Settings) -> Definition:
    """Return the definition of the provider that the settings name."""
    return named(settings.provider)


def holder(name: str, provider: str | None = None, default: str | None = None) -> Definition:
    """Return the provider that is asked for, or else the one that has an instance of that name, or else the default.

    Args:
        default: the provider of a new instance; the first one without it.

    Raises:
        BadInput: no provider has the name that is asked for.
    """
    if provider is not None:
        return named(provider)
    known = [named(each) for each in names()]
    return next((each for each in known if each.has_instance(name)), named(default) if default else known[0])


def machines_like(settings: Settings) -> str:
    """Return the provider that rows of matrix/infras.yml with such machines name; loads it only where it has to say."""
    return of(settings).machines_like(settings) if settings.provider in LIKE_OTHERS else settings.provider


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
    value = getattr(module, "NAME" if name == "KUBECONFIG" else name)
    globals()[name] = value
    return value
