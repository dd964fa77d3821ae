"""Which test answers which fault of the reliability reference, and what was left out and why."""

from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Fault:
    """`tests`: file under tests/ and name of a test, more than one by several entries. `open`: what of the
    fault no test covers, with the reason; empty when it is covered."""

    number: str
    what: str
    tests: tuple[tuple[str, str], ...] = ()
    open: str = ""


def _t(file: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((file, name) for name in names)


KILLS = "faults/test_release_kills.py"
ACT = "test_an_act_killed_before_a_writing_call_is_wholly_done_or_not_at_all_and_can_be_done_again"
SYSCALLS, DISK, BITS = (
    "faults/test_store_syscalls.py",
    "faults/test_store_disk.py",
    "faults/test_store_bits.py",
)
PROCESSES, MIGRATIONS, BACKUP = (
    "faults/test_store_processes.py",
    "faults/test_store_migrations.py",
    "faults/test_backup.py",
)
SOME_PAGES = "of the page writes a sample of 4 per act, every sync, cut and unlink"

FAULTS = (
    Fault(
        "F01",
        "promotion killed at each writing call",
        _t(SYSCALLS, "test_a_promotion_killed_before_any_writing_call_is_wholly_old_or_wholly_new"),
    ),
    Fault("F02", "full rollback killed", _t(KILLS, ACT), SOME_PAGES),
    Fault("F03", "rollback of one layer killed", _t(KILLS, ACT), SOME_PAGES),
    Fault("F04", "restore of a snapshot killed", _t(KILLS, ACT), SOME_PAGES),
    Fault("F05", "approval and rejection killed", _t(KILLS, ACT), SOME_PAGES),
    Fault(
        "F06",
        "audit head cut off while it is written",
        _t("faults/test_audit_heads.py", "test_a_line_cut_off_by_a_crash_hides_nothing"),
        "the cut line is made by hand, not by a kill",
    ),
    Fault(
        "F07",
        "killed again during recovery",
        _t(BITS, "test_a_cut_log_leaves_whole_transactions_up_to_the_cut"),
        "each cut of the log is recovered once; no kill inside the recovery of SQLite itself",
    ),
    Fault(
        "F08",
        "random kills under load",
        _t(
            "faults/test_processes.py",
            "test_a_killed_writer_leaves_what_it_acknowledged_and_no_half_transaction",
        )
        + _t(
            "faults/test_spool_kill.py",
            "test_two_hundred_kills_lose_no_acknowledged_record_and_deliver_each_once",
        ),
        "200 kills on the spool, fewer on the ledger; not of two command lines and a gateway at once",
    ),
    Fault(
        "F09",
        "power loss: unsynced writes kept, torn at a sector or dropped",
        _t(KILLS, "test_power_loss_at_any_moment_tears_nothing_and_takes_nothing_acknowledged"),
    ),
    Fault(
        "F10",
        "an export lost or out of date at start",
        _t(
            "acceptance/test_decision_export.py",
            "test_whatever_happens_to_the_files_they_are_made_whole_again",
        ),
    ),
    Fault(
        "F11",
        "fsync and fdatasync fail",
        _t(SYSCALLS, "test_a_promotion_whose_writes_fail_is_not_acknowledged_and_says_why")
        + _t(DISK, "test_after_a_failed_write_the_whole_file_is_checked_before_anything_is_read_from_it"),
    ),
    Fault(
        "F12",
        "writes fail",
        _t(SYSCALLS, "test_a_promotion_whose_writes_fail_is_not_acknowledged_and_says_why"),
        "no short writes, no EINTR, no failing reads: SQLite retries the first two itself",
    ),
    Fault("F13", "file system full", _t(DISK, "test_a_truly_full_file_system_is_said_and_survived")),
    Fault(
        "F14",
        "SQLITE_FULL",
        _t(
            DISK,
            "test_a_full_disk_undoes_the_transaction_says_so_and_leaves_the_ledger_usable",
            "test_a_full_disk_in_the_middle_keeps_nothing_of_the_block_even_if_the_caller_goes_on",
        ),
    ),
    Fault(
        "F15",
        "no room for records or a file too large",
        _t(
            DISK,
            "test_records_on_a_full_disk_keep_the_earlier_batches_and_take_the_same_batch_later",
            "test_a_failed_write_reported_as_disk_io_error_is_undone_and_the_file_is_checked_before_going_on",
        ),
        "inodes and descriptors are not used up",
    ),
    Fault(
        "F16",
        "read-only, wrong owner, wrong kind of file",
        _t(
            DISK, "test_missing_rights_are_named_with_the_path", "test_a_folder_in_place_of_the_file_is_named"
        ),
    ),
    Fault(
        "F17",
        "write-ahead log cut anywhere",
        _t(BITS, "test_a_cut_log_leaves_whole_transactions_up_to_the_cut"),
    ),
    Fault(
        "F18",
        "flipped bits, damaged parts",
        _t(BITS, "test_damage_is_noticed_or_changes_nothing_that_is_told")
        + _t(DISK, "test_a_part_whose_bytes_changed_is_never_handed_out"),
    ),
    Fault(
        "F19",
        "files deleted, replaced or cut under a running process",
        _t(
            DISK,
            "test_a_file_replaced_or_removed_under_an_open_ledger_is_noticed",
            "test_a_cut_file_with_its_log_beside_it_is_refused_instead_of_starting_empty",
        ),
    ),
    Fault(
        "F20",
        "the store replaced by an older copy",
        _t("faults/test_audit_heads.py", "test_whatever_the_owner_of_the_store_does_to_the_log_is_detected")
        + _t(
            "faults/test_postgres_faults.py",
            "test_a_database_that_lost_an_hour_is_noticed_by_whoever_saw_that_hour",
        )
        + _t(
            "faults/test_gateway_fleet.py",
            "test_an_older_copy_of_postgresql_gets_the_lost_hour_back_with_one_alarm_and_no_job_twice",
        ),
    ),
    Fault(
        "F21",
        "clock steps",
        _t("state/test_lifecycle.py", "test_what_the_ledger_holds_is_what_the_model_says"),
        "steps of 2 and 30 h back on the injected clock. A cooldown counts wall time: a step ahead shortens "
        "it and a step back lengthens it by that step, for the ledger keeps no monotonic time",
    ),
    Fault(
        "F22",
        "promotions on one base",
        _t(
            "contract/test_ledger_contract.py",
            "test_of_several_promotions_on_one_base_one_wins_and_the_others_hear_of_it",
        ),
    ),
    Fault(
        "F23",
        "races of trip, promotion, approval, expiry",
        _t("faults/test_release_races.py", "test_a_trip_and_a_promotion_at_once_end_as_if_one_came_first")
        + _t("faults/test_release_races.py", "test_of_approval_rejection_and_expiry_at_once_one_wins"),
    ),
    Fault(
        "F24",
        "a suspended holder of the lock",
        _t(PROCESSES, "test_a_held_lock_is_waited_for_within_the_bound_and_then_named")
        + _t(
            "faults/test_postgres_processes.py",
            "test_a_suspended_writer_keeps_nobody_out_and_is_told_when_it_wakes",
        ),
        "the growth of the log behind a long reader is not measured",
    ),
    Fault(
        "F25",
        "fork and threads",
        _t(
            PROCESSES,
            "test_a_forked_child_is_told_to_open_anew_and_leaves_the_parent_alone",
            "test_threads_of_one_process_share_a_ledger_and_records",
        ),
    ),
    Fault(
        "F26",
        "the store's files opened beside SQLite",
        _t("faults/test_release_races.py", "test_nothing_opens_the_ledgers_file_but_sqlite"),
    ),
    Fault(
        "F27",
        "migration killed, run twice, run by many",
        _t(SYSCALLS, "test_a_migration_killed_before_any_writing_call_is_old_or_new_and_can_be_run_again")
        + _t(MIGRATIONS, "test_openers_at_once_migrate_once"),
    ),
    Fault(
        "F28",
        "older and newer stores",
        _t(
            MIGRATIONS,
            "test_an_older_file_is_brought_up_to_date_and_a_copy_of_it_is_kept",
            "test_a_newer_ledger_or_record_store_is_refused",
        )
        + _t(BACKUP, "test_a_backup_of_a_newer_schema_is_refused_before_anything_is_written"),
        "no release has been made yet, so there are no fixtures of earlier ones",
    ),
    Fault("F29", "model endpoint faults", _t("acceptance/test_model_endpoint.py", "*")),
    Fault(
        "F30",
        "stop signals",
        _t("acceptance/test_gateway_stop.py", "*") + _t("unit/cli/test_cli_worker.py", "*"),
        "no memory limit is set on a process",
    ),
    Fault(
        "F31",
        "backup during writes, and restore",
        _t(
            BACKUP,
            "test_a_backup_during_writes_is_consistent_and_loses_nothing_acknowledged",
            "test_what_comes_back_is_what_was_there_and_its_numbers_go_on",
        ),
    ),
    Fault(
        "F32",
        "ten thousand versions, a million audit rows",
        open="no test asserts a time; the figures belong to `make bench`, which has none of them yet",
    ),
)


def exists(file: str, name: str) -> bool:
    """Whether that test is there; `*` stands for any test of the file."""
    path = TESTS / file
    text = path.read_text() if path.exists() else ""
    return "def test_" in text if name == "*" else f"def {name}(" in text


def kind(file: str, name: str) -> str:
    """Which target runs it: by the marks in its file."""
    text = (TESTS / file).read_text()
    if "pytestmark = pytest.mark.full" in text:
        return "`.ci/run`"
    before = text.split(f"def {name}(")[0].rsplit("\n\n\n", 1)[-1] if name != "*" else ""
    if "mark.full" in before:
        return "`.ci/run`"
    return "`make test-slow`" if "mark.slow" in before else "`make test`"


def table() -> str:
    """The faults as Markdown."""
    rows = ["| fault | what | tests | run by | not covered |", "|---|---|---|---|---|"]
    for fault in FAULTS:
        tests = "; ".join(
            f"`{file}`: {name.removeprefix('test_').replace('_', ' ')}" for file, name in fault.tests
        )
        by = ", ".join(dict.fromkeys(kind(*one) for one in fault.tests))
        rows.append(f"| {fault.number} | {fault.what} | {tests or 'none'} | {by} | {fault.open} |")
    return "\n".join(rows) + "\n"
