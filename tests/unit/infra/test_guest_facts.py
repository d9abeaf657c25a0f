"""What machines can and cannot: the page says what the data say, and every product is told."""

from __future__ import annotations

import re
from dataclasses import asdict, fields

import yaml

from harness.infra.guest_facts import PREFIX, VIRTUAL, GuestFacts, HostKernel, guest_facts, guest_vars
from tests.contract.guest_proofs import PROOFS
from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "guests.md").read_text(encoding="utf-8")
MODERN = HostKernel(unified_cgroups=True, may_raise_limits=True, swap=False, open_files=1, proc_modules=True)
OLD = HostKernel(unified_cgroups=False, may_raise_limits=False, swap=True, open_files=2, proc_modules=False)
OF_THE_HOST = "as the host"


def rows() -> dict[str, tuple[str, str]]:
    """Return the page's table: what it says of embedded and of virtual machines, by variable."""
    found = re.findall(r"^\| `(guest_\w+)` \| (.+?) \| `(\S+)` \| .+ \|$", PAGE, re.MULTILINE)
    return {name: (embedded.strip("`"), virtual) for name, embedded, virtual in found}


def test_the_page_says_what_products_are_told() -> None:
    one, other = guest_facts(MODERN).variables(), guest_facts(OLD).variables()
    embedded = {name: yaml.safe_dump(one[name]).split()[0] if one[name] == other[name] else OF_THE_HOST for name in one}
    virtual = {name: yaml.safe_dump(value).split()[0] for name, value in VIRTUAL.variables().items()}
    assert rows() == {name: (embedded[name], virtual[name]) for name in one}


def test_every_fact_is_proved_in_a_machine() -> None:
    assert set(PROOFS) == {field.name for field in fields(GuestFacts)}


def test_the_playbooks_variables_have_the_facts() -> None:
    for host in (MODERN, OLD):
        given, facts = guest_vars(host), asdict(guest_facts(host))
        assert {name: given[f"{PREFIX}{name}"] for name in facts} == facts
    assert guest_vars(OLD)["guest_open_files"] == 2
