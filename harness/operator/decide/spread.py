"""Which failure domain the machines of a set are in, go to and leave from, so that domains stay balanced; pure.

A set of n machines over k domains has at most n/k of them, rounded up, in each, and one where domains are required. New
machines go to the domain that has the fewest, and machines leave the one that has the most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.kube.failures import Json
from harness.kube.objects import controller_of, dig
from harness.operator.api.conditions import Said
from harness.operator.api.sets import HOSTNAME_LABEL, ZONE_LABEL, FailureDomains

NAMED = 5  # so many machines of a kind are named, of more only how many there are


@dataclass(frozen=True)
class Spreading:
    """Over what a set is spread.

    key: the label whose values are the domains.  required: no domain has two machines.
    domains: the only ones, none where any will do.  asked: whether the set says anything of it.
    """

    key: str = ZONE_LABEL
    required: bool = False
    domains: tuple[str, ...] = ()
    asked: bool = False

    @staticmethod
    def of(machine_set: Json) -> Spreading:
        """Return what a set says, as a MachineSet or a ClusterDeployment has it."""
        domains = machine_set.get("failureDomains")
        if domains is None:
            return Spreading(domains=tuple(dig(machine_set, "machines", "kubevirt", "zones") or ()))
        own = FailureDomains.model_validate(domains)
        return Spreading(own.topology_key, own.policy == "Required", own.domains, asked=True)

    def domain_of(self, machine: Json) -> str:
        """Return the domain that a Machine is in, "" where nobody says so, or where it is none of the set's.

        A machine that is not a virtual machine is a host of its own.
        """
        domain = str(dig(machine, "metadata", "labels", self.key) or "")
        if not domain and self.key == HOSTNAME_LABEL:
            made = dig(machine, "spec", "kubevirt") or dig(machine, "spec", "through")
            name = machine["metadata"]["name"]
            domain = str(dig(machine, "status", "infrastructure", "node") or "") if made else name
        return domain if not self.domains or domain in self.domains else ""

    def known(self, machines: Iterable[Json]) -> tuple[str, ...]:
        """Return the domains that there are: those that the set names, or that Machines are in."""
        return self.domains or tuple(sorted({self.domain_of(machine) for machine in machines} - {""}))


def share(machines: int, domains: int) -> int:
    """Return the most machines of a set that one of so many domains has."""
    return -(-machines // max(domains, 1))


def emptiest(domains: Sequence[str], taken: Iterable[str]) -> str:
    """Return the domain that has the fewest machines, the first of several; "" where there is no domain."""
    counts = Counter(taken)
    return min(domains, key=lambda domain: counts[domain], default="")


def claimed_in_order(spreading: Spreading, free: Iterable[Json], own: Iterable[Json]) -> Iterator[Json]:
    """Yield Machines, each from a domain that the set has the fewest of; in the given order within a domain.

    Where domains are required, no second one of a domain is yielded, however few domains there are.

    Args:
        free: that may be claimed.  own: that the set has.
    """
    left, counts = list(free), Counter(map(spreading.domain_of, own))
    while left:
        chosen = min(left, key=lambda machine: counts[spreading.domain_of(machine)])
        left.remove(chosen)
        domain = spreading.domain_of(chosen)
        if spreading.required and (not domain or counts[domain]):
            continue
        counts[domain] += 1
        yield chosen


def leaving_in_order(machines: Sequence[tuple[str, str]], first: int) -> list[str]:
    """Return the names of machines in the order in which they leave a set.

    Args:
        machines: each with its domain, in the order in which they would leave without domains.
        first: so many at the beginning leave first, whatever domains they are in.
    """
    left = list(machines)
    gone = [left.pop(0) for _ in range(first)]
    while left:
        counts = Counter(domain for _, domain in left)
        chosen = max(left, key=lambda machine: counts[machine[1]])  # the first of several
        left.remove(chosen)
        gone.append(chosen)
    return [name for name, _ in gone]


def spread_of(machine_set: Json, own: Sequence[Json], others: Iterable[Json] = ()) -> Said | None:
    """Return whether the machines of a set are spread as it asks, None where it asks for nothing.

    Args:
        own: Machines that it has.  others: that it could have.
    """
    spreading, replicas = Spreading.of(machine_set), int(machine_set.get("replicas", 1))
    if not spreading.asked:
        return None
    name, known = f"set {machine_set['name']}", spreading.known((*own, *others))
    unknown = [machine["metadata"]["name"] for machine in own if not spreading.domain_of(machine)]
    if unknown:
        remedy = f"label the Machine with {spreading.key}"
        if any(controller_of(machine) for machine in own):
            remedy = "name failureDomains.domains, so that each Machine has the label of its own"
        where = f"in a domain of {spreading.key}" + (f" ({', '.join(known)})" if spreading.domains else "")
        return None, "DomainUnknown", f"{name}: nothing says that {first_names(unknown)} is {where}: {remedy}"
    where_each: dict[str, list[str]] = {domain: [] for domain in known}
    for machine in own:
        where_each[spreading.domain_of(machine)].append(machine["metadata"]["name"])
    most = 1 if spreading.required else share(max(replicas, len(own)), max(len(known), 2 if replicas > 1 else 1))
    over = {domain: names for domain, names in where_each.items() if len(names) > most}
    if over:
        crowded = "; ".join(f"{domain} has {first_names(names)}" for domain, names in over.items())
        message = f"{name}: {crowded}, of {len(own)} machines in {len(known)} domains of {spreading.key}"
        return False, "TooManyInOne", f"{message}: add machines in others, and replace some of these"
    if spreading.required and replicas > max(len(known), len(own)):
        there = ", ".join(known) or "none"
        message = f"{name}: {replicas} machines need as many domains of {spreading.key}, and there are {there}"
        return False, "TooFewDomains", f"{message}: add Machines in others, or set failureDomains.policy to Preferred"
    return True, "Spread", _counts(where_each)


def together(conditions: Iterable[Said]) -> Said:
    """Return one condition of those of several sets."""
    answers = list(conditions)
    for status in (False, None):
        if some := [answer for answer in answers if answer[0] is status]:
            return status, some[0][1], "; ".join(answer[2] for answer in some)
    return (True, "Spread", "") if answers else (True, "NotAsked", "")


def _counts(where_each: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{domain}: {len(names)}" for domain, names in where_each.items())


def first_names(names: Sequence[str]) -> str:
    """Return names for people: the first ones, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
