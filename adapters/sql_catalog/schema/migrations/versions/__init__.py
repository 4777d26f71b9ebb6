"""The revisions of the schema, one module for each."""
