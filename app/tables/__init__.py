"""File formats <-> tables as `app.dataset` has them. Streaming: bytes and record batches come and go, none is kept."""
