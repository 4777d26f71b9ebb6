"""Deliveries: outgoing messages and their progress."""
