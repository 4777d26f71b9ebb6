"""What the gateway does at present and did lately."""
