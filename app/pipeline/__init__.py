"""The second host of assembly: Apache Spark, for journals that are too large for one process."""
