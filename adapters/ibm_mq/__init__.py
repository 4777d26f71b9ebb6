"""IBM MQ, by pymqi or ibmmq: messages are got in units of work that are committed when the journal has them."""
