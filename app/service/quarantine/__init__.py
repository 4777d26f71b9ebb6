"""Quarantined messages: their records, and what became of those that were processed again."""
