"""Conversions: what turns files into data sets and data sets into files, in processes of its own.

A conversion reads bytes that anybody may have sent, with libraries that take whatever memory and time those bytes ask
for. So it runs in a worker process with limits, and the worker is killed when the limit, the time or the client is
gone. Workers are forked from a server that has imported everything, and are used again.
"""

from app.service.conversion.pool import Busy, Conversions, LimitExceeded, Slot, finished

__all__ = ["Busy", "Conversions", "LimitExceeded", "Slot", "finished"]
