"""Tests of serializers: bytes, hashes, compatibility of stored types."""
