"""The REST resource of the tables that the pipeline builds."""
