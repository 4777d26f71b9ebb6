"""Real brokers and sending programs, shared by tests and benchmarks."""
