from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from prx.spool.frames import HEADER_BYTES, MAGIC, Frame, Gap, Tail, frame, pieces

PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=8)


def payloads_in(data: bytes) -> list[bytes]:
    return [piece.payload for piece in pieces(data) if isinstance(piece, Frame)]


@given(PAYLOADS)
def test_what_was_framed_is_read_back_in_order(payloads: list[bytes]) -> None:
    assert payloads_in(b"".join(map(frame, payloads))) == payloads


@given(PAYLOADS, st.data())
def test_a_cut_anywhere_gives_the_frames_before_it_and_one_tail(
    payloads: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(map(frame, payloads))
    cut = data.draw(st.integers(0, len(whole)))
    found = list(pieces(whole[:cut]))
    ends = [sum(len(frame(p)) for p in payloads[: n + 1]) for n in range(len(payloads))]
    complete = sum(end <= cut for end in ends)
    assert [p.payload for p in found if isinstance(p, Frame)] == payloads[:complete]
    tails = [p for p in found if isinstance(p, Tail)]
    assert [(t.start, t.end) for t in tails] == (
        [(([0, *ends])[complete], cut)] if cut not in [0, *ends] else []
    )


@given(st.lists(st.text(max_size=30).map(str.encode), min_size=2, max_size=8), st.data())
def test_one_flipped_byte_costs_exactly_the_frame_it_is_in(
    payloads: list[bytes], data: st.DataObject
) -> None:
    frames = [frame(p) for p in payloads]
    victim = data.draw(st.integers(0, len(frames) - 2))
    at = data.draw(st.integers(0, len(frames[victim]) - 1))
    broken = bytearray(frames[victim])
    broken[at] ^= data.draw(st.integers(1, 255))
    found = list(pieces(b"".join([*frames[:victim], bytes(broken), *frames[victim + 1 :]])))
    assert [p.payload for p in found if isinstance(p, Frame)] == payloads[:victim] + payloads[victim + 1 :]
    start = sum(map(len, frames[:victim]))
    assert [(g.start, g.end) for g in found if isinstance(g, Gap)] == [(start, start + len(broken))]


@given(PAYLOADS)
def test_pieces_cover_every_byte_once(payloads: list[bytes]) -> None:
    data = b"xx" + b"".join(map(frame, payloads)) + MAGIC
    spans = [(p.start, p.end) for p in pieces(data, 1000)]
    assert spans[0][0] == 1000
    assert spans[-1][1] == 1000 + len(data)
    assert all(before[1] == after[0] for before, after in pairwise(spans))


def test_a_length_that_reaches_beyond_the_end_hides_no_later_frame() -> None:
    broken = MAGIC + (2**31).to_bytes(4, "little") + b"\0\0\0\0"
    assert payloads_in(broken + frame(b"after")) == [b"after"]


def test_bytes_of_the_payload_that_look_like_a_header_are_not_taken_for_one() -> None:
    inner = frame(b"inner")
    assert payloads_in(frame(inner)) == [inner]
    assert len(frame(b"")) == HEADER_BYTES
