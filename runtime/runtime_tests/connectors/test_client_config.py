from __future__ import annotations

import pytest

from headrace.connectors.kafka.client_config import to_java, to_librdkafka
from headrace.errors import InvalidConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required "


def test_names_that_both_clients_know_pass_unchanged():
    same = {"security.protocol": "SASL_SSL", "compression.type": "zstd", "linger.ms": "5"}
    assert to_librdkafka(same) == same
    assert to_java(same) == same


@pytest.mark.parametrize("module", [PLAIN, SCRAM])
def test_credentials_of_a_login_module_become_name_and_password(module):
    jaas = module + 'username="me" password="a\\"b";'
    expected = {"sasl.username": "me", "sasl.password": 'a"b'}
    assert to_librdkafka({"sasl.jaas.config": jaas}) == expected


def test_name_and_password_become_a_login_module():
    given = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'a"b'}
    expected = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN + 'username="me" password="a\\"b";',
    }
    assert to_java(given) == expected


@pytest.mark.parametrize("password", ["plain", 'quo"te', "back\\slash", "semi;colon", "a=b c"])
def test_credentials_survive_both_directions(password):
    given = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": password,
    }
    assert to_librdkafka(to_java(given)) == given


def test_other_login_modules_are_refused_by_name():
    jaas = "com.sun.security.auth.module.Krb5LoginModule required;"
    with pytest.raises(InvalidConfigError, match="Krb5LoginModule"):
        to_librdkafka({"sasl.jaas.config": jaas})


def test_missing_credentials_are_named_without_showing_the_others():
    with pytest.raises(InvalidConfigError, match="missing=\\['username'\\]") as raised:
        to_librdkafka({"sasl.jaas.config": PLAIN + 'password="s3cret";'})
    assert "s3cret" not in str(raised.value)


def test_pem_trust_stores_are_read():
    given = {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}
    assert to_librdkafka(given) == {"ssl.ca.location": "/ca.pem"}


@pytest.mark.parametrize("extra", [{}, {"ssl.truststore.type": "JKS"}])
def test_java_key_stores_are_refused(extra):
    with pytest.raises(InvalidConfigError, match=r"ssl\.truststore\.type"):
        to_librdkafka({"ssl.truststore.location": "/trust.jks", **extra})


def test_buffer_memory_is_converted_from_bytes_to_kilobytes():
    assert to_librdkafka({"buffer.memory": "1048576"}) == {"queue.buffering.max.kbytes": "1024"}
