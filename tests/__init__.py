"""The tests, and the programs that they are made of. None sees the settings or the proxies of who runs it."""

from tests.support import environment

environment.isolate()
