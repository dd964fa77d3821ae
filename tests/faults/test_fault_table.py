"""Every fault of the reference has a test or a reason, and the page says the same."""

from fault_table import FAULTS, TESTS, exists, table


def test_every_fault_has_a_test_that_exists_or_a_reason() -> None:
    assert [fault.number for fault in FAULTS] == [f"F{n:02}" for n in range(1, 33)]
    for fault in FAULTS:
        assert fault.tests or fault.open, fault.number
        for file, name in fault.tests:
            assert exists(file, name), (fault.number, file, name)


def test_a_test_that_is_gone_would_be_missed() -> None:
    assert not exists("faults/test_store_bits.py", "test_that_never_was")
    assert not exists("faults/test_none.py", "*")


def test_the_page_shows_today_s_table() -> None:
    page = (TESTS.parent / "docs" / "reliability.md").read_text()
    assert table() in page, "run `.venv/bin/python tests/statistics/reliability.py`"
