"""The checkpoint protocol as data and pure decisions; no I/O, no threads, no clock.

Readers observe facts (object listings, markers, metadata), hand them to the functions here, and
execute the returned decision. The operator imports this package too, to prove a restore source
before it stops a job (OP15); hence it knows nothing of Spark, RocksDB or any storage client.

- `types`: what is stored (`CheckpointMetadata`, handles) and what slots acknowledge.
- `paths`: every object name, in one place.
- `generations`: fencing: who may publish, and which checkpoint a new generation starts from.

See docs/adr/0005 (checkpoint protocol) and docs/adr/0006 (generations and fencing).
"""
