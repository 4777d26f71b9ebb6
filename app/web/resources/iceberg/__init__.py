"""The Iceberg REST catalog of the tables that the pipeline builds: read only."""
