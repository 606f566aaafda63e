"""The command line, and the jars that it resolves."""
