"""Sending: files and tables become deliveries, and then framed messages to a broker."""
