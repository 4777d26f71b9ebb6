"""The types of problems as a resource."""
