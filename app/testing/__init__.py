"""The contract suites of framings and transports, for the tests of the gateway and of other packages.

A package inherits `app.testing.framing_contract.FramingContract` and `app.testing.transport_contract.TransportContract`
in its tests. They need pytest, which the extra `testing` brings, and Spark.
"""
