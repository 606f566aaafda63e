"""Frames of the data channel over a real socket pair."""

import socket

import pytest

from headrace.slot.frames import FRAME_BYTES_MAX, FrameReader, FrameType, send_frame


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_frames_arrive_whole_and_in_order(pair):
    left, right = pair
    send_frame(left, FrameType.CHUNK, b"ab", memoryview(b"cd"))
    send_frame(left, FrameType.END)
    reader = FrameReader(right)
    assert [(FrameType.CHUNK, b"abcd"), (FrameType.END, b"")] == [reader.read(), reader.read()]


def test_a_peer_that_leaves_inside_a_frame_is_noticed(pair):
    left, right = pair
    left.sendall(b"\x03\xff\x00\x00\x00abc")
    left.close()
    with pytest.raises(EOFError):
        FrameReader(right).read()


def test_an_unknown_type_is_refused(pair):
    left, right = pair
    left.sendall(b"\x63\x00\x00\x00\x00")
    with pytest.raises(ValueError, match="99"):
        FrameReader(right).read()


def test_a_length_beyond_the_limit_is_refused_before_anything_is_read(pair):
    left, right = pair
    left.sendall(b"\x03" + (FRAME_BYTES_MAX + 1).to_bytes(4, "little"))
    with pytest.raises(ValueError, match="too long"):
        FrameReader(right).read()
