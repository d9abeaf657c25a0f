"""What is kept of every cell run, one JSON line each: how a line reads, and the stores that keep lines."""
