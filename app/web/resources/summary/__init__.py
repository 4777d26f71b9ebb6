"""What the gateway does at present."""
