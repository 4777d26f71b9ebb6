"""One folder a specification: its words, its tables, its small loops."""
