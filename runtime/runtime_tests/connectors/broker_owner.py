"""Starts a broker, writes its pid and waits to be killed: run by the broker's own tests."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from headrace.cli.cache import cache_dir
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path


def main() -> None:
    broker = KafkaBroker(Path(sys.argv[1]), resolve_broker_class_path(cache_dir()))
    # A short-lived thread starts it, as tests that restart a broker do.
    starter = threading.Thread(target=broker.start)
    starter.start()
    starter.join()
    sys.stdout.write(f"{broker.pid}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
