"""``python -m headrace.driver <job.json>``: the same as ``headrace driver --config <job.json>``."""

import sys
from pathlib import Path

from headrace.driver.main import main

if __name__ == "__main__":
    main(Path(sys.argv[1]))
