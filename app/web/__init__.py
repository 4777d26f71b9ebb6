"""REST: what HTTP clients see of the gateway."""
