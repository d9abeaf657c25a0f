"""Ansible lookup: what ansible.builtin.template returns, without a copy of all variables for each template."""

from __future__ import annotations

from typing import Any

from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase


class _Variables(dict[str, Any]):
    """Variables whose deep copy is a shallow one: what Ansible does with its copy is to add names to it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return dict(self)


class LookupModule(LookupBase):  # type: ignore[misc]
    """Renders templates of the role."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        """Return what each named template renders to."""
        lookup = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        return list(lookup.run(terms, variables=_Variables(variables or {}), **kwargs))
