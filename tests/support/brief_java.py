"""A Java that works for some seconds only: without its second compiler, and without threads that collect garbage."""

from app.pipeline.job.spark_session import BRIEF_JAVA

OPTIONS = f"-XX:+UseSerialGC {BRIEF_JAVA}"
CONF = ("--conf", f"spark.driver.extraJavaOptions={OPTIONS}")
"""The same for the commands of `pipeline`."""
