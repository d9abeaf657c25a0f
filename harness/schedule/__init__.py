"""Which cell starts when: expected durations, order, room in the infra cluster, reservations, shards."""
