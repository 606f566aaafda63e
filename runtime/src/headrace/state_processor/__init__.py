"""Stored state as data: what Flink calls the State Processor API (C10, E9).

Any checkpoint or savepoint can be listed, read, compared and written without the program that owns
it, because a serializer snapshot lies beside every state:

- `catalog`: what is stored, by operator uid and state name;
- `reading`, `columns`: files of one slot at a time, entries as Arrow batches;
- `text`, `compare`: for the ``headrace state`` commands;
- `functions`, `declared`, `bootstrap`: rows as keyed state of a new savepoint;
- `spark`: the data source ``headrace-state``, and `SavepointWriter` for DataFrames.

It sits above the state backends and the checkpoint store and uses them as a slot does; nothing in
the runtime of a job knows it. See docs/state-as-data.md.
"""
