"""The slot process: operators, keyed state and sinks of one slot, beside a Spark executor.

Never imports pyspark. `process` is the entry point, `messages` and `frames` the protocols, `chunk`
the row format of an exchange. ARCHITECTURE.md draws one epoch.
"""
