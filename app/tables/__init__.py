"""Convert file formats to tables of `app.dataset` and back. Streaming: bytes and record batches pass through."""
