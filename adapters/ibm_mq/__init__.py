"""IBM MQ, by pymqi or ibmmq. Messages are got in units of work that are committed when the journal has them."""
