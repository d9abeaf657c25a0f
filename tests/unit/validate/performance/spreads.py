"""Series of runs with the noise that a test asks for, by a fixed seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

Noise = Callable[[random.Random], float]  # a deviation, as a logarithm


def numbers(seed: int) -> random.Random:
    """Return numbers that are the same each time."""
    return random.Random(seed)  # noqa: S311 - no secret


def normal(spread: float) -> Noise:
    """Return normal noise."""
    return lambda rng: rng.gauss(0.0, spread)


def heavy(spread: float) -> Noise:
    """Return noise of which some is far out: Student's t of three degrees of freedom."""

    def one(rng: random.Random) -> float:
        square = sum(rng.gauss(0.0, 1.0) ** 2 for _ in range(3)) / 3
        return spread * rng.gauss(0.0, 1.0) / math.sqrt(square) / 1.3

    return one


def odd(spread: float) -> Noise:
    """Return normal noise in which 3 % of the runs take 1.3 to 4 times as long."""
    return lambda rng: rng.gauss(0.0, spread) + (math.log(rng.uniform(1.3, 4.0)) if rng.random() < 0.03 else 0.0)


def series(noise: Noise, runs: int, rng: random.Random, *, factor: float = 1.0) -> list[float]:
    """Return what so many runs took, around `factor`."""
    return [factor * math.exp(noise(rng)) for _ in range(runs)]
