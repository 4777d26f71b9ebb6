"""Adapters of the attachment gateway: its ports (`app.ports`) for brokers, disks and databases."""
