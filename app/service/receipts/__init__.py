"""Custody receipts: statements about what was received and sent, in a signed log that only grows."""
