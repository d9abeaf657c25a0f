"""The operator's controllers: each one module with `start(context)`, listed in harness/operator/registry.py."""
