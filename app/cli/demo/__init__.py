"""`demo`: a broker, a gateway and attachments that go through both, in one process."""
