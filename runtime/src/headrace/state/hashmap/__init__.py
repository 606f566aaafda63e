"""The in-memory backend: rows in dictionaries, full snapshots."""
