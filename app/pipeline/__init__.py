"""Host two of the assembly: Apache Spark, which works through journals too large for one process."""
