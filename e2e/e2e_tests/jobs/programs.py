"""Programs with one mistake each."""

from __future__ import annotations

from headrace_demo.manifests import example_directory


def example(*replacements: tuple[str, str]) -> str:
    """The example's program with texts replaced, each of which must be there once."""
    program = (example_directory() / "job.py").read_text()
    for old, new in replacements:
        assert program.count(old) >= 1, old
        program = program.replace(old, new)
    return program


WITHOUT_SERVERS = example((".set_bootstrap_servers(arguments.bootstrap_servers)", ""))

WITHOUT_EXECUTE = example(('    env.execute("upi-per-merchant")\n', ""))

WITH_AN_EXCEPTION = example(
    (
        "        before = self.totals.value()",
        '        raise ValueError("the merchant is on fire")\n        before = self.totals.value()',
    )
)

NOT_PYTHON = "def broken(:\n"
