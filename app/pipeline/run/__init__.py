"""The runs of the pipeline: over a whole archive, and over a growing journal."""
