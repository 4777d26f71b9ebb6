"""Files that are sent by PUT, as `curl -T` does."""
