"""Sending: files and tables -> deliveries -> framed messages on their way to a broker."""
