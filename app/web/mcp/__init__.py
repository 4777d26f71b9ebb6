"""The Model Context Protocol: operations of REST as tools of language models."""
