"""Quarantine: physical messages that could not be understood."""
