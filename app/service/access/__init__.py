"""Access: who a client is, and the record of what clients did."""
