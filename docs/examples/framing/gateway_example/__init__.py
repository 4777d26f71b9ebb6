"""A framing and a transport of another package, which the attachment gateway finds by their entry points."""
