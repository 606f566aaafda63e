"""Keyed state of one operator in one slot: contract, cache, timers, and backends.

`contract` is what the slot sees, `factory` opens a backend by name. Only `rocksdb` knows rocksdict.
"""
