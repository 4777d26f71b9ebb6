"""How long tests are: those that kill, damage or draw something again and again do so a few times, and with the option
`--long` hundreds of times."""

IS_LONG = False
"""Whether `--long` is given. tests/conftest.py sets it before it imports the modules of tests."""
