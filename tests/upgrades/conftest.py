"""Commands, as the tests of the command line run them."""

from tests.cli.conftest import run

__all__ = ["run"]
