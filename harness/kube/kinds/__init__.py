"""Kinds of our own as pydantic models: their schemas, definitions and rules, and what is wrong with an object."""
