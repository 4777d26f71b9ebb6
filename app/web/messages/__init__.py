"""Messages: what was received, and sending."""
