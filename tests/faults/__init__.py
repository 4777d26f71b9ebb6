"""A fault campaign: faults in real processes and brokers, and the promises that must hold in spite of them.

`campaign` runs scenarios that it draws from a seed, `kinds` lists the faults, `world` has a scenario's processes,
`ledger` records what was sent, acknowledged and served, `judging` compares. The encoder of the traffic (`traffic`,
`packets`) is the tests' own and shares no code with the gateway. `pipeline` does the same with runs on Spark.
"""
