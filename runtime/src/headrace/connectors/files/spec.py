"""Frozen descriptions of a file source and a file sink, as the builders make them.

The source is Spark's own file stream: it remembers which files it has read in its log, which is
part of the checkpoint, and takes every new file of a directory once, oldest first. Files must
appear whole (written elsewhere and renamed, or put into an object store) and never change. A
bounded source reads those that are there when the job is first started, and ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from headrace.checkpoint.storage.opening import open_store
from headrace.connectors.files.committer import FileCommitter
from headrace.connectors.files.target import PartNaming
from headrace.connectors.files.writer import FileFormat, FileWriter
from headrace.connectors.sink import Committer, DeliveryGuarantee, SinkContext, SinkWriter
from headrace.connectors.spools import spool_id_of

DEFAULT_MAX_FILES_PER_EPOCH: Final = 1000


class LineDeserializer(Protocol):
    """How one line becomes a value."""

    def deserialize(self, line: bytes) -> object:
        """Return the value, None to leave the line out."""
        ...


@dataclass(frozen=True, slots=True)
class FileSourceSpec:
    """Files that are read line by line.

    Attributes:
        paths: directories, files or globs, as Hadoop understands them.
        deserializer: line without its end -> value.
        max_files_per_epoch: bound of what one epoch reads.
        options: further options of Spark's text source, such as ``pathGlobFilter``.
        bounded: the files that are there at the first start are all; otherwise new ones are read
            as they appear.
    """

    paths: tuple[str, ...]
    deserializer: LineDeserializer
    max_files_per_epoch: int = DEFAULT_MAX_FILES_PER_EPOCH
    options: Mapping[str, str] = field(default_factory=dict)
    bounded: bool = False

    def spark_options(self) -> dict[str, str]:
        """Return the options of Spark's ``text`` source; its one column is ``value``, a string."""
        return {"maxFilesPerTrigger": str(self.max_files_per_epoch), **self.options}

    def spark_path(self) -> str:
        """Return the one path that ``load`` takes: several become a glob."""
        return self.paths[0] if len(self.paths) == 1 else "{" + ",".join(self.paths) + "}"


@dataclass(frozen=True, slots=True)
class FileSinkSpec:
    """A directory that finished files appear in; a `TwoPhaseCommittingSink`, always exactly-once.

    Attributes:
        base_uri: ``file:///absolute/directory`` or ``s3://bucket/prefix``.
        file_format: what the files hold.
        part_prefix, part_suffix: first and last part of the files' names.
    """

    base_uri: str
    file_format: FileFormat
    part_prefix: str = "part"
    part_suffix: str = ""

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """Rows appear once, about one checkpoint interval late."""
        return DeliveryGuarantee.EXACTLY_ONCE

    def probe(self) -> None:
        """Check the URI; whether it may be written is seen from the slots, which mount it.

        Raises:
            InvalidConfigError: scheme or form of the URI is wrong.
        """
        open_store(self.base_uri, {})

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """See `TwoPhaseCommittingSink.create_writer`."""
        naming = PartNaming(
            base_uri=self.base_uri,
            prefix=self.part_prefix,
            suffix=self.part_suffix,
            job_id=context.job_id,
            operator_uid=context.operator_uid,
            spool_id=spool_id_of(context.slot),
        )
        return FileWriter(naming, self.file_format, context.spool_dir)

    def create_committer(self, context: SinkContext) -> Committer:
        """See `TwoPhaseCommittingSink.create_committer`."""
        opener = partial(open_store, options=context.storage_options)
        return FileCommitter(self.base_uri, opener, context)
