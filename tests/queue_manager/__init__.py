"""A test double of IBM MQ: a client library that the real pymqi and ibmmq run on, and a queue manager in Python.

It is made from public documentation, only for these tests, and is never installed. `include/`, `mqi.c` and
`properties.c` are the client library, which marshals every call; `server` is the queue manager, which decides what the
calls mean; `build` puts the libraries together. Tests use it through `tests.support.queue_manager` and
`tests.support.mqi`.
"""
