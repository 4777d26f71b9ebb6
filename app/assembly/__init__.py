"""Event + state -> state + effects. Pure: no clock, socket or file."""
