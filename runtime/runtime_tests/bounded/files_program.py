"""Copies the lines of a fixed set of files; a file that appears meanwhile is none of them."""

import sys
from pathlib import Path

from headrace.common import WatermarkStrategy
from headrace.common.serialization import Encoder, SimpleStringSchema
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat


class AddingAFile(SimpleStringSchema):
    """Puts another file into the directory as soon as the first line was read."""

    def __init__(self, late: str) -> None:
        super().__init__()
        self._late = late

    def deserialize(self, message: bytes) -> str:
        Path(self._late).write_text("late\n")
        return super().deserialize(message)


def main(input_dir: str, output_dir: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    lines = StreamFormat.line_format(AddingAFile(f"{input_dir}/late.txt"))
    source = FileSource.for_record_stream_format(lines, input_dir)
    source.set_option("maxFilesPerTrigger", "1")  # an epoch a file
    sink = FileSink.for_row_format(output_dir, Encoder.simple_string_encoder()).build()
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "files")
    stream.map(str.upper).sink_to(sink).uid("out")
    env.execute("files")


if __name__ == "__main__":
    main(*sys.argv[1:])
