"""Webhooks: events are sent to other programs as signed requests, in order, until they are taken."""
