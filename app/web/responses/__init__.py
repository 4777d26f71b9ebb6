"""Responses that several resources give: content in ranges, waiting, and work that ends with its client."""
