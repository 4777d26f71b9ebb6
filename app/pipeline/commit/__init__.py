"""Commit of results to the tables and the catalog: a batch is visible as a whole or not at all."""
