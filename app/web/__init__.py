"""The REST interface for HTTP clients."""
