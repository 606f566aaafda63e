"""Stored state of every released format, which every later version must restore."""
