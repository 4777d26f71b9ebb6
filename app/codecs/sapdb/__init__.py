"""The order interface of SAP DB and MaxDB: packets of segments of parts, and what parts hold.

A packet is written in its client's byte order and code, as its first two bytes state. Nothing here is aligned but
parts and segments, which begin at multiples of 8. The format is described from packets that the kernel's own routines
and the JDBC driver wrote (`tests/vectors`).
"""
