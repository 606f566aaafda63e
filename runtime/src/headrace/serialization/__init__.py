"""Bytes of keys and values: type descriptions, serializers, compatibility of stored types."""
