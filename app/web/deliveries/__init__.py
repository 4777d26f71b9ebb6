"""Deliveries: outgoing messages and how far they are."""
