"""What time does: unfinished attachments expire, and what is old or too much is removed."""
