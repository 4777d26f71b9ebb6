"""The artifacts of a release, what proves them, and the check of both: `make release`, `make verify`."""
