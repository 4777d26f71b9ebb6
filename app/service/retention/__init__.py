"""Retention: unfinished attachments expire, and data that is old or too much is removed."""
