"""What a run tells others of itself: metrics, spans, lineage, expectations, and its record."""
