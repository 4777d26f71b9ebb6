"""Reports of a run: metrics, spans, lineage, expectations, and its record."""
