"""Playbooks of a product file as an executor runs them: which one, with which variables, and how Ansible is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.machines.runner.call import AnsibleCall
from harness.operator.decide.product_file import KnownProduct, phase_of
from harness.paths import packaged_dir
from harness.spec.models import AnsibleOptions
from harness.spec.own_words import in_both

OURS = "playbooks"  # the folder of those that ship with vmatrix


def playbook_of(product: KnownProduct | None, entry: str, root: Path | None) -> Path:
    """Return where a playbook is.

    Args:
        root: what a product's directory is relative to (None: where this program runs), or the folder of vmatrix's own
            playbooks (None: those that ship with it).
    """
    if product is None:
        return (root if root is not None else packaged_dir() / OURS) / entry
    return directory_of(product, root) / entry


def directory_of(product: KnownProduct, root: Path | None) -> Path:
    """Return the folder that a product's paths are relative to."""
    return (root if root is not None else Path.cwd()) / product.product.directory


def call_of(product: KnownProduct | None, operation: str, root: Path | None) -> AnsibleCall:
    """Return how Ansible is called for an operation: as product.yml asks for, or as for vmatrix's own playbooks."""
    if product is None:
        return AnsibleCall()
    options = product.product.ansible or AnsibleOptions()
    directory = directory_of(product, root)
    return AnsibleCall(
        programs=(directory / options.path).expanduser() if options.path is not None else AnsibleCall().programs,
        config=directory / options.config if options.config is not None else None,
        inventories=tuple(directory / name for name in options.inventories),
        arguments=(
            *(("--become",) if options.become else ()),
            *options.args,
            *product.product.phases[phase_of(operation)].args,
        ),
    )


def variables_of(product: KnownProduct | None, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of an operation: those of the product below those that are given, in its words as well."""
    if product is None:
        return dict(given)
    phase = product.product.phases[phase_of(operation)]
    return in_both(product.product.variables, {**product.product.vars, **phase.vars, **given})
