"""Finishing of assembled attachments: their content, read from the journal."""
