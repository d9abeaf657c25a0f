"""How an infra cluster is had, by provider."""
