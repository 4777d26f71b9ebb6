"""The tests of this package have a session of Spark."""

pytest_plugins = ["app.testing.fixtures"]
