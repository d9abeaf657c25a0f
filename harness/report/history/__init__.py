"""What is kept of every cell run, one JSON line each: in a file, on a git branch or in a package."""
