"""Rows in PostgreSQL by any SQL statement: exactly-once with a ledger table, or at least once."""
