"""The console: a page for people, made of what REST offers to everybody."""
