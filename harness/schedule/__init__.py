"""Which cell starts when: expected durations, order, room in the infra cluster, reservations, shards."""

from harness.schedule.admission import Admission, Admitted, Decision, Refused
from harness.schedule.demand import Demand, demand_of
from harness.schedule.durations import Durations, Expectation
from harness.schedule.estimate import estimate
from harness.schedule.limits import Limits
from harness.schedule.queue import CellQueue
from harness.schedule.shards import Shard, parse_shard, shard

__all__ = [
    "Admission",
    "Admitted",
    "CellQueue",
    "Decision",
    "Demand",
    "Durations",
    "Expectation",
    "Limits",
    "Refused",
    "Shard",
    "demand_of",
    "estimate",
    "parse_shard",
    "shard",
]
