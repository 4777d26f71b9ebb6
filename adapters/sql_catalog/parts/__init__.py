"""The parts of the catalog, one for each concern."""
