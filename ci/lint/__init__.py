"""Every linter of the project in one call, here and in the pipeline: text for people, code quality for GitLab."""
