"""File transfer over MQTT: commands in topics, and their JSON documents.

Source: EMQ, EIP-0021 "File transfer over MQTT", implemented by EMQX since 5.1.
"""
