"""matrix/product.yml: the deployment code under test."""

from __future__ import annotations

from pydantic import Field

from harness.spec.base import Model, Name, Text, Variables


class ProductPhase(Model):
    """The playbook of a phase, relative to the product's directory.

    paths: globs of further files (relative to the project) whose change affects this phase and no other.
    """

    playbook: Text
    paths: tuple[Text, ...] = ()


class Product(Model):
    """The deployment code under test.

    without_effect: globs of files (relative to the project) whose change affects no cell.
    """

    name: Text
    directory: Text
    phases: dict[Name, ProductPhase] = Field(min_length=1)
    vars: Variables = Field(default_factory=dict)
    without_effect: tuple[Text, ...] = ()
