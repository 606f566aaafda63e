"""Runs ``headrace cluster`` on its own: ``python -m headrace_devcluster``."""

from headrace_devcluster.cli import app

if __name__ == "__main__":
    app()
