"""Checks of a guest cluster. tests/cells turns each judgement into a pytest item.

remote: programs that run on the guest's machines, probe pods, and how to run both.
facts: what the inventory asks for, and what machines and API reported.
judge: what must be true of the facts.
phases: what a phase must have done to the guest.
conformance: the curated upstream specs.
inspection: one guest, asked each thing once; all of the above start here.
"""
