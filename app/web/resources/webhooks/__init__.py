"""Webhooks: their state, and the events that were given up."""
