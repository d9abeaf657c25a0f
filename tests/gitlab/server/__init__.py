"""A server that speaks what a GitLab runner and its jobs ask of GitLab; README.md says what it does not prove."""
