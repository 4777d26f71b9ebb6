"""The MQTT packets that the gateway reads and writes itself."""
