"""Judgements: what must be true of the facts and answers of a guest."""
