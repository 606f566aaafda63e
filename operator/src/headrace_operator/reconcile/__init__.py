"""Phase 4, reconcile: decide on facts, write the intent to status, act.

`decide` is pure: (spec, observed) -> (status, actions, events). Its parts:

- `drivers`: the life of the driver pod: start, run, stop; `endings`: what its end means.
- `objects`: objects that are missing or were edited.
- `deletion`: the way out, with a deadline.
- `health`: what is wrong and whether the job is ready.
- `conditions`, `transitions`: status and events that follow.

`execute` does what was decided, `actor` runs the phases for one job, again and again. Safety does
not rest on memory: the driver pod has one fixed name, deletions name the UID that they mean, and
status is written with the version that the decision was made on. An operator may be killed between
any two steps, or run twice, and there is still at most one driver. See docs/adr/0010.
"""
