"""Finished content: where its bytes are, whether they are still those that were received, and how they are copied."""
