"""The registry of providers: each is a module of this package by the name that the setting `provider` allows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast, get_args

from harness.errors import BadInput
from harness.spec.renamed import current_provider
from harness.spec.settings import Settings

if TYPE_CHECKING:
    from harness.providers.definition import Definition

LIKE_OTHERS = frozenset({"kind"})  # whose machines are like another provider's, as its instance was made


def names() -> tuple[str, ...]:
    """Return the names of all providers, the default first."""
    return get_args(Settings.model_fields["provider"].annotation)


def named(name: str) -> Definition:
    """Return a provider's definition. Raises BadInput when no provider has that name."""
    name = str(current_provider(name, "--provider"))
    if name not in names():
        raise BadInput(f"provider {name!r} does not exist", hint=f"use --provider {' or '.join(names())}")
    found = import_module(f"harness.providers.{name}").PROVIDER
    return cast("Definition", found)


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
