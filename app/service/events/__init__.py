"""What happened to attachments, messages and deliveries: the event log, its log lines and its spans."""
