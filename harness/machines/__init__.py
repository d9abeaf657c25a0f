"""Machines that exist: how they are logged in to, and how playbooks run on them."""
