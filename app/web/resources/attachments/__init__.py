"""Attachments: listing, progress and content."""
