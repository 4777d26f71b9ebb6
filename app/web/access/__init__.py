"""Who may do what by REST: callers, operations and their scopes, limits, and the audit log."""
