"""The operator's webhooks: mistakes are refused when they are written, in the words that a condition would have."""
