"""What the history says: pure functions from records to frozen dataclasses; no file, no clock, no page."""
