"""What tests and benchmarks share: real brokers, and programs that send to them."""
