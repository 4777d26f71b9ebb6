"""The references of physical messages: their meaning for assembly and their positions, without bodies."""
