"""A Java that works for some seconds only: without its second compiler, and without threads that collect garbage."""

OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
CONF = ("--conf", f"spark.driver.extraJavaOptions={OPTIONS}")
"""The same for the commands of `pipeline`."""
