"""Hardened clusters: the CIS Kubernetes Benchmark, and what a hardened guest must refuse, hide and write down."""
