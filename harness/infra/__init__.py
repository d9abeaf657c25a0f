"""Infra clusters: how each provider gets one, and what a cluster must have."""
