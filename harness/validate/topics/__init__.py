"""Topics: of each, what is asked for, what machines and API show of it, and what must be true."""
