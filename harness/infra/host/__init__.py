"""An instance on this host: its files, addresses, processes, and what is left of it."""
