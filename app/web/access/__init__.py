"""Who may call what, and the audit log of what was called."""
