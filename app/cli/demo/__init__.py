"""`demo`: a broker, a gateway and attachments that pass through both, in one process."""
