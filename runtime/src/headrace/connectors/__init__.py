"""Connectors: descriptions of sources and two-phase sinks. Contract: `headrace.connectors.sink`."""
