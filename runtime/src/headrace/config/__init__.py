"""Options by Flink's keys: parsing, validation, reference page.

`headrace.config.options` declares them, `headrace.config.registry` finds them,
`headrace.config.job_configuration` holds the validated values of one job.
"""

from headrace.config.job_configuration import (
    JobConfiguration,
    build_configuration,
    parse_options,
)

__all__ = ["JobConfiguration", "build_configuration", "parse_options"]
