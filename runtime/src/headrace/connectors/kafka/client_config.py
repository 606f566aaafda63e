"""Client settings in Java's names, as PyFlink programs write them, for librdkafka and for Spark.

A program says ``security.protocol``, ``sasl.jaas.config``, ``ssl.truststore.location`` whether it
configures a source or a sink. Spark's source is a Java client and takes them as they are; the sink
and the probes are librdkafka, whose names differ in few places. Both directions are pure functions.
What cannot be translated is refused by name: a setting is never dropped in silence. What is unknown
here is handed on, so the client library itself refuses misspelt names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headrace.errors import InvalidConfigError

_SAME_MEANING: Final[Mapping[str, str]] = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Java name -> librdkafka name."""

_JAVA_ONLY: Final = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "partition.discovery.interval.ms",
        "ssl.truststore.type",
        "ssl.keystore.type",
    }
)
"""Settings of Java classes that do not exist here; checked where they carry a meaning."""

_JAAS_MODULE: Final[Mapping[str, str]] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_JAAS_OPTION: Final = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_DEFAULT_MECHANISM: Final = "PLAIN"


def to_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate Java client settings for librdkafka; its own names pass unchanged.

    Raises:
        InvalidConfigError: a setting has no counterpart (JKS stores, other login modules).
    """
    _refuse_key_stores(properties)
    translated: dict[str, str] = {}
    for name, value in properties.items():
        if name == "sasl.jaas.config":
            translated |= _credentials(value)
        elif name == "buffer.memory":
            translated[_SAME_MEANING[name]] = str(max(1, int(value) // 1024))
        elif name not in _JAVA_ONLY:
            translated[_SAME_MEANING.get(name, name)] = value
    return translated


def to_java(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate settings for a Java client; only librdkafka's credentials need it."""
    names = {"sasl.username", "sasl.password"}
    translated = {name: value for name, value in properties.items() if name not in names}
    if names <= properties.keys() and "sasl.jaas.config" not in properties:
        mechanism = properties.get("sasl.mechanism", _DEFAULT_MECHANISM)
        module = _JAAS_MODULE.get(mechanism)
        if module is None:
            msg = (
                "a SASL mechanism cannot be used with name and password, use PLAIN or SCRAM; "
                f"sasl.mechanism={mechanism}"
            )
            raise InvalidConfigError(msg)
        user, password = (_escape(properties[name]) for name in ("sasl.username", "sasl.password"))
        translated["sasl.mechanism"] = mechanism
        translated["sasl.jaas.config"] = (
            f'{module} required username="{user}" password="{password}";'
        )
    return translated


def _credentials(jaas: str) -> dict[str, str]:
    if not any(module in jaas for module in _JAAS_MODULE.values()):
        module = jaas.split(maxsplit=1)[0] if jaas.strip() else ""
        msg = (
            "the sink does not know this login module, use PlainLoginModule or "
            "ScramLoginModule; "
            f"property=sasl.jaas.config module={module}"
        )
        raise InvalidConfigError(msg)
    options = {name: _unescape(value) for name, value in _JAAS_OPTION.findall(jaas)}
    missing = {"username", "password"} - options.keys()
    if missing:
        msg = f"credentials are incomplete; property=sasl.jaas.config missing={sorted(missing)}"
        raise InvalidConfigError(msg)
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _refuse_key_stores(properties: Mapping[str, str]) -> None:
    for name, allowed in (("ssl.truststore", {"PEM"}), ("ssl.keystore", {"PKCS12"})):
        if f"{name}.location" not in properties:
            continue
        kind = properties.get(f"{name}.type", "JKS").upper()
        if kind not in allowed:
            msg = (
                f"a key store of this type cannot be read by the sink, use {min(allowed)}; "
                f"property={name}.type value={kind}"
            )
            raise InvalidConfigError(msg)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _unescape(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)
