"""Errors keep their kind over process borders, and name the user's lines, not ours."""

import pytest

from headrace import errors
from headrace.engine.task_errors import TaskError, find_task_error, reporting_errors
from headrace.slot.wire_errors import from_error_info, to_error_info

KINDS = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, errors.HeadraceError)
]


@pytest.mark.parametrize("cls", KINDS)
def test_every_kind_comes_back_as_itself(cls):
    error = cls("x; value=1")
    back = from_error_info(to_error_info(error))
    assert type(error) is type(back)
    assert "x; value=1" == str(back)


def test_a_finer_class_comes_back_as_the_kind_that_it_shares():
    class FinerError(errors.StorageUnavailableError):
        pass

    back = from_error_info(to_error_info(FinerError("x")))
    assert errors.StorageUnavailableError is type(back)


def test_kinds_are_unique():
    assert len(KINDS) == len({cls.kind for cls in KINDS})


def test_an_exception_of_user_code_names_its_type_and_line():
    def faulty():
        raise KeyError("merchant")

    try:
        faulty()
    except KeyError as error:
        info = to_error_info(error)
    assert errors.UserCodeError.kind == info.kind
    assert info.message == "KeyError: 'merchant'"
    assert 'raise KeyError("merchant")' in info.traceback_text


def test_a_task_error_survives_being_flattened_to_text():
    with pytest.raises(TaskError) as raised, reporting_errors():
        raise errors.InvalidConfigError("wrong; key=a")
    text = f"org.apache.spark.SparkException: Job aborted\n{raised.value}\n\tat java.lang.Thread"
    info = find_task_error(text)
    assert info is not None
    assert (errors.InvalidConfigError.kind, "wrong; key=a", False) == (
        info.kind,
        info.message,
        info.restartable,
    )


def test_other_text_holds_no_task_error():
    assert find_task_error("java.lang.OutOfMemoryError") is None
