"""All options by key. A key that is not here is refused, with the nearest known one (L5).

Keys of Flink that Headrace knows and does not support have their own message, so that nobody
believes that they take effect.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, cast

from headrace.config.options import checkpointing, engine, job, memory, restart, state, storage
from headrace.errors import InternalError, InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.config.option import Option

OPTIONS: Final = cast(
    "tuple[Option[object], ...]",  # Option is invariant; readers only format and compare
    (
        *job.OPTIONS,
        *checkpointing.OPTIONS,
        *state.OPTIONS,
        *restart.OPTIONS,
        *memory.OPTIONS,
        *storage.OPTIONS,
        *engine.OPTIONS,
    ),
)
"""Every option, in the order of the reference page."""

UNSUPPORTED_PREFIXES: Final[Mapping[str, str]] = {
    "execution.checkpointing.unaligned": "checkpoints are aligned at the end of an epoch",
    "execution.checkpointing.aligned-checkpoint-timeout": "checkpoints are always aligned",
    "execution.buffer-timeout": "use headrace.epoch.max-rows for latency",
    "pipeline.auto-watermark-interval": "watermarks move at the end of every epoch",
    "pipeline.object-reuse": "values pass between chained functions without copies",
    "pipeline.operator-chaining": "operators between two exchanges always run chained",
    "execution.checkpointing.local-backup": "slots always keep the last checkpoint on local disk",
    "fs.azure.account.key.": "a job's storage is in one account, use fs.azure.account.key",
    "fs.azure.sas.fixed.token.": "a job's storage is in one account, use fs.azure.sas.fixed.token",
    "fs.azure.account.keyprovider": "set AZURE_STORAGE_ACCOUNT_KEY in the environment",
    "fs.azure.account.oauth": "set AZURE_CLIENT_ID and its like in the environment",
    "rest.bind-address": "the driver listens on its pod's address, a local run on 127.0.0.1",
    "high-availability": "the operator replaces a lost driver, and checkpoints name the state",
    "jobmanager.": "the driver is described by spec.driver of a StreamJob",
    "state.changelog": "use incremental checkpoints",
    "state.backend.changelog": "use incremental checkpoints",
    "python.": "the runtime image holds the Python environment",
    "metrics.": "the driver serves Prometheus on /metrics",
    "kubernetes.operator.savepoint.format.type": "use headrace.savepoint.format-type",
    "kubernetes.": "use the fields of a StreamJob",
}
"""Beginnings of Flink's keys that mean nothing here -> what to do instead."""


def _index(options: Iterable[Option[object]]) -> dict[str, Option[object]]:
    by_key: dict[str, Option[object]] = {}
    for option in options:
        for key in option.keys:
            if key in by_key:
                msg = f"two options share a key; key={key}"
                raise InternalError(msg)
            by_key[key] = option
    return by_key


_BY_KEY: Final = _index(OPTIONS)


def known_keys() -> list[str]:
    """Return every accepted key, aliases included, sorted."""
    return sorted(_BY_KEY)


def option_keys(key: str) -> tuple[str, ...]:
    """Return all keys of the option that ``key`` belongs to; only ``key`` when it is unknown."""
    option = _BY_KEY.get(key)
    return (key,) if option is None else option.keys


def find_option(key: str) -> Option[object]:
    """Return the option of a key or alias.

    Raises:
        InvalidConfigError: the key is not known; names the nearest key or what to use instead.
    """
    option = _BY_KEY.get(key)
    if option is not None:
        return option
    for prefix, instead in UNSUPPORTED_PREFIXES.items():
        if key.startswith(prefix):
            msg = f"option of Flink is not supported, {instead}; key={key}"
            raise InvalidConfigError(msg)
    near = difflib.get_close_matches(key, _BY_KEY, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]}" if near else "`headrace config` lists all options"
    msg = f"unknown option, {advice}; key={key}"
    raise InvalidConfigError(msg)
