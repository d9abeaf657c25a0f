"""What is made of an analysis: a JSON document, a Markdown note, annotations for GitLab, badges."""
