"""Part of network.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs
from harness.validate.remote.probes import DialResult, Probes

Pair = tuple[str, str]


OfFamily = Callable[[Probes, ExpectedGuest], list[Mismatch]]  # of the probes and the guest as one IP family has them


PARALLEL_DIALS = 8


# A backend that gets one connection in n is missed by all of 15 n with a probability below n * e^-15, about 1e-6.
TRIES_PER_BACKEND = 15


UNASKED = "API server -> probe on"


def pairs(expected: ExpectedGuest) -> list[Pair]:
    """Return every ordered pair of nodes, including each node with itself: n * n of them."""
    return [(source, target) for source in expected.nodes for target in expected.nodes]


def of_each_family(probes: Probes, expected: ExpectedGuest, judge: OfFamily) -> list[Mismatch]:
    """Judge the addresses of each IP family that the cell has; the first address of all where nobody says."""
    if not expected.pod_cidr:
        return judge(probes, expected)
    return [one for family in expected.families for one in judge(probes.of_family(family.version), family)]


def dial_all(asked: list[Pair], dial: Callable[[str, str], DialResult]) -> dict[Pair, DialResult]:
    """Dial for every pair, several at a time."""
    with ThreadPoolExecutor(PARALLEL_DIALS) as pool:
        return dict(zip(asked, pool.map(lambda pair: dial(*pair), asked), strict=True))


def wrong_answers(
    asked: list[Pair], answers: Mapping[Pair, DialResult], wanted: Callable[[str], str], *, part: bool = False
) -> list[Mismatch]:
    """Return the pairs (source, target) that did not get the one answer `wanted(target)`, or were not dialled.

    Args:
        part: whether it is enough that the answer contains what is wanted.
    """
    found = [*differs("the check", "pairs dialled", len(asked), len(answers)), *unasked_probes(answers)]
    for source, target in asked:
        if (source, target) in answers and answers[source, target].unasked:
            continue
        answer = answers.get((source, target), DialResult((), ("was not dialled",)))
        text = wanted(target)
        good = len(answer.responses) == 1 and (text in answer.responses[0] if part else text == answer.responses[0])
        if not good or answer.errors:
            seen = "; ".join(_short(answer.errors, 200)) or repr(_short(answer.responses))
            found.append(Mismatch(f"{source} -> {target}", repr(_short((text,))), seen))
    return found


def unasked_probes(answers: Mapping[Pair, DialResult]) -> list[Mismatch]:
    """Return the probes that the API server does not reach, each once: what they would have got is not known."""
    why = {source: answer.unasked for (source, _), answer in answers.items() if answer.unasked}
    wanted = "an answer, without which nothing is known of what it reaches"
    return [Mismatch(f"{UNASKED} {source}", wanted, seen) for source, seen in sorted(why.items())]


def only_unasked(found: Iterable[Mismatch]) -> bool:
    """Tell whether nothing is wrong but that the API server does not reach probes, which was tried twice."""
    return all(one.where.startswith(UNASKED) for one in found)


def _short(texts: tuple[str, ...], limit: int = 80) -> tuple[str, ...]:
    return tuple(text if len(text) <= limit else f"{text[: limit // 4]}... ({len(text)} bytes)" for text in texts)
