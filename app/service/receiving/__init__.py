"""From transports to the journal and its archive, and the numbering of messages on arrival."""
