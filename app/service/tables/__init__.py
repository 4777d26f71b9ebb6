"""Tables for reading: found by name, queried by SQL, and named for Iceberg."""
