"""What an infra cluster must have, and what may be done there, asked of its API."""
