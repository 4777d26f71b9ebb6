"""The HTTP server: connections with limits, certificates, threads, and turns of requests."""
