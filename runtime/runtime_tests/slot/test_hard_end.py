"""A slot that is stuck in user code ends all the same."""

import threading

from headrace.slot.hard_end import end_hard_unless


def test_a_process_that_does_not_end_in_time_is_ended():
    codes, called = [], threading.Event()

    def exit_now(code):
        codes.append(code)
        called.set()

    end_hard_unless(threading.Event(), 0.01, exit_now)
    assert called.wait(5)
    assert [1] == codes


def test_a_process_that_ends_by_itself_is_left_alone():
    codes, ended = [], threading.Event()
    ended.set()
    before = set(threading.enumerate())
    end_hard_unless(ended, 5, codes.append)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert [] == codes
