"""The framings: physical messages to events and back, one module a framing. A framing has no memory."""
