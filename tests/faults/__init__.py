"""A fault campaign: real processes, real brokers, and all that can happen to them; and what must hold whatever happens.

`campaign` runs scenarios that it draws from a seed, `kinds` lists the faults, `world` is what a scenario runs in,
`ledger` what was sent, acknowledged and served, `judging` compares. The encoder of the traffic (`traffic`, `packets`)
is the tests' own and shares nothing with the gateway.
"""
