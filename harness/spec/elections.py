"""Times of etcd's elections where many machines share few processors, and the variable that gives them."""

from __future__ import annotations

ETCD_ARGS = "cluster_etcd_extra_args"
ETCD_TIMES = {"heartbeat-interval": "500", "election-timeout": "5000"}  # ms; etcd's own are 100 and 1000
