"""Event time over source splits: the minimum, idleness, restore (G2, G3, G5, G6, T13, T33)."""

from headrace.graph.stream_graph import WatermarkSpec
from headrace.slot.chunk import SplitProgress
from headrace.slot.watermarks import WATERMARK_MAX, WATERMARK_MIN, WatermarkTracker

SECOND = 1000
START = 10 * 3600 * SECOND  # 10:00:00


def tracker(*, delay_ms=30 * SECOND, idleness_ms=None, sources=1):
    spec = WatermarkSpec("bounded", delay_ms, idleness_ms)
    return WatermarkTracker({i: (f"source-{i}", spec) for i in range(sources)})


def seen(split, timestamp, source=0):
    return SplitProgress(source, split, timestamp, 1)


def test_the_worked_timeline_of_a_thirty_second_delay():
    marks = tracker()
    for second in (5, 12, 31, 58, 62):
        marks.observe([seen("0", START + second * SECOND)], 0)
        marks.advance(0, final=False)
    # 10:01:02 less 30 s is 10:00:32; the watermark is one ms before what may still come
    assert START + 32 * SECOND - 1 == marks.current_ms


def test_the_slowest_split_holds_the_watermark():
    marks = tracker(delay_ms=0)
    marks.observe([seen("fast", 50_000), seen("slow", 30_000)], 0)
    assert marks.advance(0, final=False) == 29_999


def test_a_source_that_has_not_spoken_holds_the_watermark():
    marks = tracker(delay_ms=0, sources=2)
    marks.observe([seen("0", 50_000)], 0)
    assert marks.advance(0, final=False) == WATERMARK_MIN


def test_an_idle_split_leaves_the_minimum_and_does_not_drag_it_back_when_it_wakes():
    marks = tracker(delay_ms=0, idleness_ms=30_000)
    marks.observe([seen("a", 10_000), seen("b", 5_000)], 0)
    assert marks.advance(0, final=False) == 4_999
    marks.observe([seen("a", 60_000)], 40_000)
    assert marks.advance(40_000, final=False) == 59_999
    marks.observe([seen("b", 6_000)], 50_000)
    assert marks.advance(50_000, final=False) == 59_999


def test_when_every_split_is_idle_the_watermark_stands_still():
    marks = tracker(delay_ms=0, idleness_ms=1_000)
    marks.observe([seen("a", 10_000)], 0)
    marks.advance(0, final=False)
    assert marks.advance(60_000, final=False) == 9_999


def test_the_end_of_all_input_ends_event_time():
    marks = tracker()
    assert marks.advance(0, final=True) == WATERMARK_MAX


def test_a_restored_tracker_goes_on_where_it_was_also_when_the_sources_changed_places():
    marks = tracker(delay_ms=0, sources=2)
    marks.observe([seen("p", 10_000, 0), seen("q", 20_000, 1)], 0)
    marks.advance(0, final=False)
    spec = WatermarkSpec("bounded", 0, None)
    moved = WatermarkTracker({0: ("source-1", spec), 1: ("source-0", spec)})
    moved.restore(marks.store(), marks.current_ms, 0)
    assert moved.current_ms == 9_999
    moved.observe([seen("p", 15_000, 1)], 0)
    assert moved.advance(0, final=False) == 14_999


def test_an_ended_source_no_longer_holds_the_others():
    marks = tracker(delay_ms=0, sources=2)
    marks.observe([seen("0", 5_000, 0), seen("1", 50_000, 1)], 0, ended_sources=[0])
    assert marks.advance(0, final=False) == 49_999


def test_a_source_that_ended_without_a_record_no_longer_holds_the_others():
    marks = tracker(delay_ms=0, sources=2)
    marks.observe([seen("1", 50_000, 1)], 0, ended_sources=[0])
    assert marks.advance(0, final=False) == 49_999
