"""Objects in S3 and services that speak it (MinIO, Ceph, ...); the only package with boto3."""

from headrace.checkpoint.storage.s3.settings import S3Settings
from headrace.checkpoint.storage.s3.store import S3Store

__all__ = ["S3Settings", "S3Store"]
