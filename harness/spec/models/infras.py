"""matrix/infras.yml: what an infra cluster offers, by infra profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from harness.spec.base import Feature, Model, Text
from harness.spec.renamed import current_provider


class Infra(Model):
    """An infra profile: what an infra cluster offers to values that need something.

    provider: the provider whose clusters have this profile by default.
    """

    label: Text
    provider: Annotated[
        Literal["embedded", "kubeconfig"] | None, BeforeValidator(lambda given: current_provider(given, "infras.yml"))
    ] = None
    offers: tuple[Feature, ...] = ()
