"""What runs on the machines and nodes of a guest, and how to run it there."""
