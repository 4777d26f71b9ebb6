"""The attachment gateway: attachments from brokers to REST, and from REST to brokers."""
