"""Who the caller is, signing in, signed links, and the audit log."""
