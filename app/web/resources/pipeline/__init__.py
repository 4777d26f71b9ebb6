"""What the pipeline on Spark does."""
