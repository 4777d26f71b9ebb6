"""The wire format of TIB/Rendezvous messages (tibrvMsg): fields with names, identifiers and types, big-endian.

A message has no checksum and no count of its fields: its total length says where the last field ends. The format is
described from bytes that a re-implementation of the C library writes and real daemons exchange (`tests/vectors`).
"""
