"""Checks of a guest cluster: what is asked of its machines and its API, and what must be true of the answers.

The questions and the judgements are plain functions here; tests/cells turns each judgement into a pytest item.
"""
