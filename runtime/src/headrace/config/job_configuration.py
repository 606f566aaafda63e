"""Validated configuration of one job: immutable, typed, complete with defaults.

Built once from text (`build_configuration`) and handed down as data; nothing below ``main`` reads
environment variables or files. Layers are merged before: defaults < conf file < manifest < program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.config.options.state import BACKEND
from headrace.config.options.storage import STORAGE_PREFIXES
from headrace.config.registry import OPTIONS, find_option, option_keys
from headrace.config.rules import check_rules
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.config.option import Option

T = TypeVar("T")

SPARK_PREFIX: Final = "spark."
"""Keys that are Spark's own; they are passed on as they are."""

_STATE_PREFIXES: Final = ("state.backend.", "headrace.state.")


@dataclass(frozen=True, slots=True)
class JobConfiguration:
    """Values of all options of one job.

    Attributes:
        values: key of the option -> value, only for options that were set.
        written_as: key of the option -> the key that the user wrote, for messages.
        spark: Spark's own options, by key.
    """

    values: Mapping[str, object]
    written_as: Mapping[str, str]
    spark: Mapping[str, str] = field(default_factory=dict)

    def get(self, option: Option[T]) -> T:
        """Return the option's value, its default when it was not set."""
        return self.values.get(option.key, option.default)  # type: ignore[return-value]

    def is_set(self, option: Option[T]) -> bool:
        """Return whether any layer set the option."""
        return option.key in self.values

    def key_of(self, option: Option[T]) -> str:
        """Return the key under which the user set the option, its present key otherwise."""
        return self.written_as.get(option.key, option.key)

    def state_backend_options(self) -> dict[str, str]:
        """Return the options of state backends that were set, as text.

        This is ``options`` of `headrace.state.contract.BackendConfig`. Defaults are left to the
        backend, which puts predefined sets of options between them and what was set.
        """
        return {
            option.key: option.type.format(self.get(option))
            for option in OPTIONS
            if self.is_set(option)
            and option.key.startswith(_STATE_PREFIXES)
            and option.key != BACKEND.key
        }

    def storage_options(self) -> dict[str, str]:
        """Return all options of checkpoint storage as text, secrets included: do not log them."""
        return dict(self._all(STORAGE_PREFIXES))

    def to_text(self) -> dict[str, str]:
        """Return the options that were set as text, secrets hidden, sorted by key."""
        shown = {
            option.key: "******" if option.sensitive else option.type.format(self.get(option))
            for option in OPTIONS
            if self.is_set(option)
        }
        return dict(sorted({**shown, **self.spark}.items()))

    def to_settings(self) -> dict[str, str]:
        """Return the options that were set as `parse_options` takes them, secrets included."""
        settings = {
            option.key: option.type.format(self.get(option))
            for option in OPTIONS
            if self.is_set(option)
        }
        return settings | dict(self.spark)

    def _all(self, prefixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for option in OPTIONS:
            value = self.get(option)
            if value is not None and option.key.startswith(prefixes):
                yield option.key, option.type.format(value)


def parse_options(settings: Mapping[str, str]) -> JobConfiguration:
    """Parse options by key or alias, without cross-field rules; ``spark.`` keys are passed on.

    Raises:
        InvalidConfigError: an unknown key, a value that its type does not accept, or two spellings
            of one option with different values.
    """
    values: dict[str, object] = {}
    written_as: dict[str, str] = {}
    spark = {key: text for key, text in settings.items() if key.startswith(SPARK_PREFIX)}
    for key, text in settings.items():
        if key in spark:
            continue
        option = find_option(key)
        value = _parse(option, key, text)
        if option.key in values and values[option.key] != value:
            msg = (
                f"two keys of one option disagree, keep one; keys={written_as[option.key]},{key} "
                f"values={settings[written_as[option.key]]!r},{text!r}"
            )
            raise InvalidConfigError(msg)
        values[option.key] = value
        written_as[option.key] = key
    return JobConfiguration(values, written_as, spark)


def merge_settings(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge layers of settings, later ones winning, whatever spelling of a key each one uses.

    Unknown keys are kept, for `parse_options` to refuse; two spellings within one layer too.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        overridden = {key for written in layer for key in option_keys(written)}
        merged = {key: text for key, text in merged.items() if key not in overridden}
        merged |= layer
    return merged


def build_configuration(settings: Mapping[str, str]) -> JobConfiguration:
    """Parse options and check the rules between them (`headrace.config.rules`).

    Raises:
        InvalidConfigError: as `parse_options`, or a rule does not hold.
    """
    configuration = parse_options(settings)
    check_rules(configuration)
    return configuration


def _parse(option: Option[object], key: str, text: str) -> object:
    try:
        return option.type.parse(text)
    except ValueError as error:
        shown = "******" if option.sensitive else repr(text)
        msg = f"option has a wrong value, expected {option.type.accepts}; key={key} value={shown}"
        raise InvalidConfigError(msg) from error
