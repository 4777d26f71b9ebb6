"""Recording, checking, repairing and backing up, so that journal, catalog, content and tables stay consistent."""
