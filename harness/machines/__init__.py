"""Machines: how they are made and seen, how they are logged in to, and how playbooks run on them."""
