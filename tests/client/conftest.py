"""The gateway of the tests of REST."""

from tests.web.conftest import stock

__all__ = ["stock"]
