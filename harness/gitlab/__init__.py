"""Pipelines of GitLab: what they run, the child pipeline of a plan, a job's beginning and end, notes."""
