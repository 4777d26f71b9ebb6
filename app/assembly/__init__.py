"""The assembly of attachments: an event and a state give a new state and effects. It uses no clock, socket or file."""
