"""What this project's own pipelines need besides the product: linters, and what prepares a job."""
