"""Attachments: lists, progress and content."""
