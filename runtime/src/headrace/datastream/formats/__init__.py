"""Formats of records at the borders of a job."""
