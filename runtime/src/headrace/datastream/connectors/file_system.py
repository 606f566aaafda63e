"""Files, as ``pyflink.datastream.connectors.file_system``: lines of text in, lines and Parquet out.

What differs from Flink: the sink finishes files at checkpoints and never in between (Flink's
``OnCheckpointRollingPolicy``), and there are no buckets.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.common.serialization import (
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from headrace.common.time import Duration
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.files.lines import LineFormat
from headrace.connectors.files.spec import FileSinkSpec, FileSourceSpec
from headrace.connectors.files.writer import FileFormat
from headrace.datastream.connectors.base import Sink, Source
from headrace.errors import InvalidConfigError

_NAME: Final = re.compile(r"[\w.=@-]*")


class StreamFormat:
    """How the lines of a file become elements."""

    def __init__(self, schema: DeserializationSchema) -> None:
        """Use the static methods."""
        self.schema = schema

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Return every line as a string."""
        if charset_name.upper().replace("-", "") != "UTF8":
            msg = f"files are read as UTF-8 only; charset_name={charset_name}"
            raise InvalidConfigError(msg)
        return StreamFormat(SimpleStringSchema())

    @staticmethod
    def line_format(schema: DeserializationSchema) -> StreamFormat:
        """Return what a schema makes of every line, e.g. ``JsonRowDeserializationSchema``.

        An addition to PyFlink's.
        """
        return StreamFormat(schema)


class FileSource(Source):
    """Reads files, or those that appear in directories; made by `for_record_stream_format`."""

    def __init__(self, spec: FileSourceSpec, produced_type: TypeInformation) -> None:
        """Use `for_record_stream_format`."""
        self._spec = spec
        self._produced_type = produced_type

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder of a source that reads files line by line."""
        return FileSourceBuilder(stream_format, paths)

    def description(self) -> FileSourceSpec:
        """Return the source as data."""
        return self._spec

    def get_produced_type(self) -> TypeInformation:
        """Return the format's type."""
        return self._produced_type


class FileSourceBuilder:
    """Collects the settings of a `FileSource`."""

    def __init__(self, stream_format: StreamFormat, paths: tuple[str, ...]) -> None:
        """Made by `FileSource.for_record_stream_format`."""
        self._format = stream_format
        self._paths = paths
        self._monitored = False
        self._options: dict[str, str] = {}

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:  # noqa: ARG002
        """Read files as they appear; directories are looked at in every epoch."""
        self._monitored = True
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job is first started, then end (the default)."""
        self._monitored = False
        return self

    def set_option(self, name: str, value: str) -> FileSourceBuilder:
        """Set an option of Spark's text source, such as ``pathGlobFilter``; beyond PyFlink's."""
        self._options[name] = value
        return self

    def build(self) -> FileSource:
        """Return the source.

        Raises:
            InvalidConfigError: a setting is missing; names the method.
        """
        if not self._paths or not all(self._paths):
            msg = "a file source needs at least one path; use=for_record_stream_format"
            raise InvalidConfigError(msg)
        spec = FileSourceSpec(
            self._paths, self._format.schema, options=self._options, bounded=not self._monitored
        )
        return FileSource(spec, self._format.schema.get_produced_type())


class OutputFileConfig:
    """Names of finished files."""

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        """Set the names' first and last part."""
        self.part_prefix = part_prefix
        self.part_suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder."""
        return OutputFileConfig.OutputFileConfigBuilder()

    class OutputFileConfigBuilder:
        """Collects the parts of names."""

        def __init__(self) -> None:
            """Start with Flink's defaults."""
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Begin names with this."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """End names with this, e.g. ``.json``."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration.

            Raises:
                InvalidConfigError: readers would ignore such names, or they are not portable.
            """
            if not self._prefix or self._prefix[0] in "._":
                msg = f"readers ignore files with such names; part_prefix={self._prefix!r}"
                raise InvalidConfigError(msg)
            for name, value in (("part_prefix", self._prefix), ("part_suffix", self._suffix)):
                if not _NAME.fullmatch(value):
                    raise InvalidConfigError(f"not a part of a file name; {name}={value!r}")
            return OutputFileConfig(self._prefix, self._suffix)


class BulkWriterFactory:
    """What the files of a bulk format hold, e.g. `ParquetBulkWriters.for_row_type`."""

    def __init__(self, file_format: FileFormat, part_suffix: str) -> None:
        """Made by a format's module."""
        self.file_format = file_format
        self.part_suffix = part_suffix


class FileSink(Sink):
    """Writes finished files to a directory at every checkpoint.

    Made by `for_row_format` (one line an element) or `for_bulk_format` (Parquet).
    """

    def __init__(self, spec: FileSinkSpec) -> None:
        """Use `for_row_format` or `for_bulk_format`."""
        self._spec = spec

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder | SerializationSchema) -> FileSinkBuilder:
        """Return a builder of a sink that writes one line an element."""
        schema = encoder.schema if isinstance(encoder, Encoder) else encoder
        return FileSinkBuilder(base_path, LineFormat(schema), OutputFileConfig("part", ""))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSinkBuilder:
        """Return a builder of a sink of files that are more than lines."""
        config = OutputFileConfig("part", writer_factory.part_suffix)
        return FileSinkBuilder(base_path, writer_factory.file_format, config)

    def description(self) -> FileSinkSpec:
        """Return the sink as data."""
        return self._spec


class FileSinkBuilder:
    """Collects the settings of a `FileSink`."""

    def __init__(self, base_path: str, file_format: FileFormat, config: OutputFileConfig) -> None:
        """Made by `FileSink`."""
        self._base_path = base_path
        self._format = file_format
        self._output = config

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """Set the names of finished files."""
        self._output = output_file_config
        return self

    def build(self) -> FileSink:
        """Return the sink.

        Raises:
            InvalidConfigError: the base path is no URI or absolute path that can be written.
        """
        uri = self._base_path
        if uri.startswith("/"):
            uri = f"file://{uri}"
        spec = FileSinkSpec(uri, self._format, self._output.part_prefix, self._output.part_suffix)
        try:
            spec.probe()
        except InvalidConfigError as error:
            msg = f"not a directory that can be written; base_path={self._base_path} cause={error}"
            raise InvalidConfigError(msg) from error
        return FileSink(spec)
