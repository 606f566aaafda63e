"""Checkpoint storage: the one seam behind which files, S3 and other stores stand.

`ObjectStore` says what storage must give; `open_store` picks the implementation by URI scheme.
Only `s3` imports boto3, only `fsspec_store` imports fsspec and the clients below it.
"""

from headrace.checkpoint.storage.opening import SUPPORTED_SCHEMES, open_store
from headrace.checkpoint.storage.store import ContentDigest, ObjectInfo, ObjectStore

__all__ = ["SUPPORTED_SCHEMES", "ContentDigest", "ObjectInfo", "ObjectStore", "open_store"]
