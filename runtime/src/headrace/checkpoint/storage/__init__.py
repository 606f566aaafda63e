"""Checkpoint storage: the one seam behind which files, S3 and other stores stand.

`ObjectStore` says what storage must give; `open_store` picks the implementation by URI scheme.
Only `s3` imports boto3.
"""

from headrace.checkpoint.storage.store import ObjectInfo, ObjectStore

__all__ = ["ObjectInfo", "ObjectStore"]
