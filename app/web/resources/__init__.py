"""The resources of REST, one package each, with its endpoints and the schemas of its JSON."""
