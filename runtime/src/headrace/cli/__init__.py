"""The command line, and what it shares with local runs: caches and jars."""
