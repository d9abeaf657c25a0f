"""The registry of providers: each is a module of this package by the name that the setting `provider` allows."""

from __future__ import annotations

from importlib import import_module
from typing import cast, get_args

from harness.errors import BadInput
from harness.providers.definition import Definition
from harness.spec.renamed import current_provider
from harness.spec.settings import Settings


def names() -> tuple[str, ...]:
    """Return the names of all providers, the default first."""
    return get_args(Settings.model_fields["provider"].annotation)


def named(name: str) -> Definition:
    """Return a provider's definition. Raises BadInput when no provider has that name."""
    name = str(current_provider(name, "--provider"))
    if name not in names():
        raise BadInput(f"provider {name!r} does not exist", hint=f"use --provider {' or '.join(names())}")
    found = import_module(f"harness.providers.{name}").PROVIDER
    return cast(Definition, found)


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
