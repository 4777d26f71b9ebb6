"""Conversions of files to data sets and of data sets to files, in separate processes.

A conversion reads bytes from any sender, with libraries that use as much memory and time as those bytes demand. So it
runs in a worker process with limits. The worker is killed at the memory limit, at the time limit, or when the client
disconnects. Workers are forked from a server that has imported everything, and are used again.
"""

from app.service.conversion.conversion_pool import Busy, Conversions, Slot, SlotUse, finished

__all__ = ["Busy", "Conversions", "Slot", "SlotUse", "finished"]
