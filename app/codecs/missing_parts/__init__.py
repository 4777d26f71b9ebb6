"""Requests for missing parts, from a receiver to the sender of an attachment, and what answers them."""
