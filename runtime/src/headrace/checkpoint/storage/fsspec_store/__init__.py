"""Objects in whatever fsspec has a file system for; the only package with fsspec and its clients.

`FsspecStore` is the same for every scheme. What differs stands in a module for each: `azure`.
Those import their client libraries, so `opening` imports them when their scheme is asked for.
"""

from headrace.checkpoint.storage.fsspec_store.binding import Binding, Patience
from headrace.checkpoint.storage.fsspec_store.store import FsspecStore

__all__ = ["Binding", "FsspecStore", "Patience"]
