"""Child pipelines made from a plan; empty while .gitlab-ci.yml is written by hand."""
