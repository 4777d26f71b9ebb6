"""The queue manager of the test double: one process, one thread, everything in memory and in an append-only log.

Read in this order: `manager` (what there is), `connection` (how a call arrives), `opening`, `putting`, `getting`
(what the calls do), `unit` and `log` (what survives).
"""
