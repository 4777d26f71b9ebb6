"""Physical message <-> event, one module a framing. No memory: what came before is an argument."""
