"""How long tests are: those that kill, damage or draw something again and again do so a few times, and with the option
`--long` hundreds of times."""

IS_LONG = False
"""Whether `--long` is given. tests/conftest.py sets it before it imports the modules of tests."""


def examples(few: int) -> int:
    """Return how many examples Hypothesis draws for a test whose examples are dear: in the long form twenty times
    `few`."""
    return 20 * few if IS_LONG else few
