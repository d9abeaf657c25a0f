"""Decide what happens to a cluster next: what is wanted, what there is, and one pure function between them."""
