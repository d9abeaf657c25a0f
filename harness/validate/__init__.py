"""Checks of a guest cluster. tests/cells turns each judgement into a pytest item.

topics: one module a topic: what a cell asks for, what machines and API show of it, and what must be true.
phases: what a phase must have done to the guest.
conformance: upstream conformance specs.
performance: how fast the guest is.
machine: programs that are sent to machines and run there; facts: what they and the API reported.
expected, variables: what the inventory and the matrix ask for.  findings: what checks return.
inspection: one guest, asked each thing once; checks start here.
"""
