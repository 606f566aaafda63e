"""An S3 server on this machine for benchmarks: MinIO, built from pinned modules into the cache."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.testing.processes import DIES_WITH_PARENT
from headrace_devcluster.checkout import find_checkout
from headrace_devcluster.progress import Progress
from headrace_devcluster.settings import Settings
from headrace_devcluster.toolchain import MINIO, Toolchain

BUCKET = "checkpoints"


@contextmanager
def s3_server(directory: Path) -> Iterator[dict[str, str]]:
    """Run a server over a directory; yields options that `open_store` takes."""
    settings = Settings.from_environment(os.environ)
    toolchain = Toolchain(
        find_checkout(), settings.cache, settings.environment, Progress.to_stderr()
    )
    program = toolchain.build_program(MINIO)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    user, password = "benchmark", secrets.token_hex(16)
    process = subprocess.Popen(
        [*DIES_WITH_PARENT, program, "server", "--quiet", "--address", address, directory / "data"],
        env={
            **os.environ,
            "MINIO_ROOT_USER": user,
            "MINIO_ROOT_PASSWORD": password,
            "MINIO_BROWSER": "off",
            "HOME": str(directory),
        },
        stdout=(directory / "minio.log").open("w"),
        stderr=subprocess.STDOUT,
    )
    options = {
        "s3.endpoint": f"http://{address}",
        "s3.path.style.access": "true",
        "s3.access-key": user,
        "s3.secret-key": password,
        "s3.region": "us-east-1",
    }
    try:
        create_bucket(options, process)
        yield options
    finally:
        process.terminate()
        process.wait()


def create_bucket(options: dict[str, str], process: subprocess.Popen[bytes]) -> None:
    """Wait for the server and make the bucket."""
    client = boto3.client(
        "s3",
        endpoint_url=options["s3.endpoint"],
        aws_access_key_id=options["s3.access-key"],
        aws_secret_access_key=options["s3.secret-key"],
        region_name=options["s3.region"],
        config=Config(retries={"total_max_attempts": 1}),
    )
    deadline, exists = time.monotonic() + 60, False
    while not exists:
        try:
            client.create_bucket(Bucket=BUCKET)
            exists = True
        except (BotoCoreError, ClientError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the S3 server did not start: {error}") from error
            time.sleep(0.1)
    client.close()
