"""Phase 1, observe: read the world, decide nothing, change nothing.

- `facts`: what a decision may know, as immutable values.
- `pods`: from a pod's manifest to facts: phase, exit, trouble and its cause.
- `driver`: the REST client of a job's driver; `driver_watch` remembers its silences.
- `snapshot`: the objects of one job as the API server holds them.
"""
