"""Assembly of references, key by key or by columns, in a batch or with Spark's state."""
