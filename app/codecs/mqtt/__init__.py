"""MQTT, as far as the gateway reads and writes packets itself."""
