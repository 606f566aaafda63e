"""Which of several operators acts, by a Lease (OP56).

Two that act at once do no harm (status is written on the version that was read, names are fixed),
only the same work twice. So a Lease is enough: nothing is fenced by it.

- `lease`: the Lease as a value, and what to do about it; pure.
- `elector`: the loop that carries it out.
"""
