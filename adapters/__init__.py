"""Adapters: implementations of the ports in `app.ports` for brokers, disks and databases."""
