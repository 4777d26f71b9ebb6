"""Keeping journal, catalog, content and tables true to each other: recording, checking, repairing, backing up."""
