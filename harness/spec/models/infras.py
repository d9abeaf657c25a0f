"""matrix/infras.yml: what an infra cluster offers, by infra profile."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.spec.base import Feature, Model, Name, Text


class Infra(Model):
    """A kind of infra cluster: what it offers to values that need something.

    provider: the provider whose clusters are of this kind, unless another kind is asked for.
    """

    label: Text
    provider: Literal["local", "kubeconfig"] | None = None
    offers: tuple[Feature, ...] = ()


class InfrasFile(Model):
    """matrix/infras.yml"""

    infras: dict[Name, Infra] = Field(min_length=1)
