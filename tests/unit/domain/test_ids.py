import os
import random
import re
import uuid
from datetime import UTC, datetime

from prx.domain.ids import Ids, SystemBits

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_an_id_is_a_uuid_of_version_7_that_tells_its_time_and_they_increase() -> None:
    ids = Ids(random.Random(1))
    made = [ids.new(NOW) for _ in range(1000)]
    assert made == sorted(set(made))
    for one in made:
        read = uuid.UUID(one)
        assert (str(read), read.version, read.variant) == (one, 7, uuid.RFC_4122)
        assert abs((read.int >> 80) - int(NOW.timestamp() * 1000)) <= 1


def test_bits_drawn_ahead_are_uniform_within_their_number_and_never_repeat() -> None:
    bits = SystemBits()
    drawn = [bits.getrandbits(62) for _ in range(5000)]
    assert len(set(drawn)) == len(drawn)
    assert max(drawn) < 2**62
    assert 0.45 < sum(one >> 61 for one in drawn) / len(drawn) < 0.55
    assert {bits.getrandbits(1) for _ in range(100)} == {0, 1}
    assert bits.getrandbits(0) == 0


def test_a_forked_child_is_given_other_bits_than_its_parent() -> None:
    bits = SystemBits()
    bits.getrandbits(64)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, f"{bits.getrandbits(120):030x}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reader, 100).decode()
    os.close(reader)
    os.close(writer)
    assert re.fullmatch("[0-9a-f]{30}", told)
    assert told != f"{bits.getrandbits(120):030x}"
