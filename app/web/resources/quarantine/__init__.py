"""Quarantine: physical messages that the gateway cannot read."""
