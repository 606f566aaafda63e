"""Connectors of a program, as ``pyflink.datastream.connectors``; each has a module of its own."""

from headrace.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
