"""``python -m headrace_operator``."""

from headrace_operator.cli import app

app()
