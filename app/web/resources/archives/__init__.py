"""All attachments of a message in one download."""
