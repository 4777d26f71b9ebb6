"""Messages: those received, and sending."""
