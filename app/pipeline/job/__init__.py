"""The Spark session of a job, the Java process behind it, and what its tasks are given."""
