"""The protecting layers: where each is taken out by ``mutants.py``, and the test that notices.

A mutant takes out one layer and leaves all others. Where another layer would hide the hole, the
test makes the situation in which this one is alone.
"""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Instead, Mutant, Swap, Value, Without

START = "tests/scenarios/test_start.py::test_"
POSTGRES = "tests/stores/test_postgres.py::test_"
LOCKS = "tests/stores/test_postgres_locks.py::test_"
CHECKS = "tests/stores/test_postgres_checks.py::test_"
DESK = "tests/stores/test_sqlite_desk.py::test_"
WRITER = "tests/stores/test_sqlite_writer.py::test_"
TROUBLE = "tests/stores/test_sqlite_trouble.py::test_"
DRIVERS = "tests/stores/test_contract_drivers.py::test_"
MIGRATIONS = "tests/stores/test_migrations.py::test_"
HOLD = "tests/stores/test_sqlite_hold.py::test_"
LOOKS = "tests/stores/test_sqlite_looks.py::test_"
LEASE = "tests/stores/test_sqlite_lease_files.py::test_"
POWER = (
    "tests/scenarios/test_power_cut.py::"
    "test_fifty_power_cuts_lose_nothing_that_was_acknowledged"
)
TWO_NAMES = "tests/scenarios/test_two_names.py"
REPEATS = "tests/stores/test_contract_repeats.py::test_"

MUTANTS = (
    Mutant(
        "a paused run starts nothing (the table)",
        "paused-run-starts-nothing",
        Swap("PG, *DRIVERS, *", "PG, *STARTS, *DRIVERS, *"),
        ("tests/journal/test_pause.py",),
    ),
    Mutant(
        "a reach that is none is refused, and not taken for one run",
        "reach-none-refused-and-not-taken",
        NEVER,
        ("tests/scenarios/test_reach.py",),
    ),
    Mutant(
        "a redirect that resumes lets go of the runs below, too",
        "redirect-resumes-lets-go-of-runs",
        NEVER,
        ("tests/scenarios/test_children.py",),
    ),
    Mutant(
        "what could not be read again is not written",
        "could-not-read-again",
        DROP,
        ("tests/scenarios/test_slips.py",),
    ),
    Mutant(
        "a result that is larger than a journal takes fails its step, not its driver",
        "result-larger-than-journal-takes",
        NEVER,
        ("tests/scenarios/test_slips.py",),
    ),
    Mutant(
        "an effect whose arguments do not fit is not in doubt",
        "effect-arguments-do-not-fit",
        Without(1),
        ("tests/scenarios/test_slips.py",),
    ),
    Mutant(
        "all caps go only where that is said",
        "all-caps-go-only-where-said",
        NEVER,
        ("tests/journal/test_limits.py",),
    ),
    Mutant(
        "a preview looks at the runs below",
        "preview-looks-at-runs-below",
        NEVER,
        ("tests/journal/test_preview.py",),
    ),
    Mutant(
        "a message that was to be taken into account and was not is owned up to",
        "message-to-taken-into-account",
        NEVER,
        ("tests/scenarios/test_unread.py",),
    ),
    Mutant(
        "an older epoch decides nothing",
        "older-epoch-decides-nothing",
        NEVER,
        ("tests/journal/test_drivers.py",),
    ),
    Mutant(
        "a request after upto is not consumed",
        "request-after-upto-not-consumed",
        Swap(" and p <= upto", ""),
        ("tests/journal/test_pause.py",),
    ),
    Mutant(
        "a redirect is delivered up to what the driver has read",
        "redirect-delivered",
        Without(1),
        ("tests/journal/test_redirect.py",),
    ),
    Mutant(
        "no end while something is in flight",
        "no-end-while-something",
        NEVER,
        ("tests/journal/test_cancel.py",),
    ),
    Mutant(
        "an outcome is taken once",
        "outcome-taken-once",
        Without(1),
        ("tests/journal/test_facts.py",),
    ),
    Mutant(
        "a living driver keeps its run",
        "living-driver-keeps-run",
        NEVER,
        ("tests/stores/test_contract_drivers.py",),
    ),
    Mutant(
        "the switch is read by start and resume",
        "switch-read",
        NEVER,
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "a kill is appended to runs in motion",
        "kill-appended-to-runs-in-motion",
        NEVER,
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "a kill revokes the drivers of resting runs",
        "kill-revokes-drivers-of-resting",
        NEVER,
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "positions are compared",
        "positions-compared",
        NEVER,
        ("tests/stores/test_contract_append.py",),
    ),
    Mutant(
        "every store asks the table",
        "every-store-asks-table",
        DROP,
        ("tests/stores/test_contract_append.py",),
    ),
    Mutant(
        "rows carry a checksum",
        "rows-carry-checksum",
        NEVER,
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "a gap is noticed",
        "gap-noticed",
        NEVER,
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "SQLite: a place can be taken once (the key)",
        "place-can-taken-once",
        Swap(
            "PRIMARY KEY (journal, position)      -- the lock: no two appends can take one place",
            "CHECK (position > 0)",
        ),
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: folded states are trusted only while data_version stands",
        "folded-states-trusted-only",
        Without(1),
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: what failed half-way is folded again",
        "failed-half-way-folded-again",
        DROP,
        ("tests/stores/test_contract_append.py", "tests/stores/test_contract_submit.py"),
    ),
    Mutant(
        "SQLite: a repeated decision is recognised",
        "repeated-decision-recognised",
        NEVER,
        ("tests/stores/test_contract_repeats.py",),
    ),
    Mutant(
        "SQLite: a repeated request is recognised",
        "repeated-request-recognised",
        NEVER,
        ("tests/stores/test_contract_repeats.py",),
    ),
    Mutant(
        "SQLite: an append is synced before it is acknowledged",
        "append-synced-before-acknowledged",
        Swap("FULL", "NORMAL"),
        ("tests/stores/test_durability.py",),
    ),
    Mutant(
        "SQLite: a power cut loses nothing that was acknowledged",
        "append-synced-before-acknowledged",
        Swap("FULL", "OFF"),
        (POWER,),
    ),
    Mutant(
        "SQLite: nobody is told before the commit has ended",
        "told-only-after-commit",
        Instead("self._back_to_loop(batch)\nself._transaction.commit()"),
        (POWER,),
    ),
    Mutant(
        "SQLite: nudges",
        "sqlite-nudges",
        NEVER,
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: polling, where a nudge is lost",
        "polling-where-nudge-lost",
        NEVER,
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: watchers are told before the author",
        "watchers-told-before-author",
        Swap("_deliver(", "_loop.call_later(0.01, self._deliver, "),
        ("tests/stores/test_contract_watch.py",),
    ),
    Mutant(
        "the kill switch is an operator's",
        "kill-switch-operator",
        NEVER,
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "SQLite: nobody deletes the log of a process that lost its POSIX locks",
        "nobody-deletes-log-of-process-lost",
        DROP,
        (HOLD + "what_is_acknowledged_after_the_file_was_read_here_is_in_the_store",),
    ),
    Mutant(
        "SQLite: an append is acknowledged only if it is in the store's file",
        "append-acknowledged-only",
        DROP,
        (HOLD + "nothing_is_acknowledged_by_a_process_whose_file_was_taken_away",),
    ),
    Mutant(
        "SQLite, two processes: a driver that lives is not taken for dead",
        "driver-lives",
        Value("True"),
        (TWO_NAMES,),
    ),
    Mutant(
        "SQLite, two processes: nobody deletes the log or empties its index while one lives",
        "nobody-deletes-log-or-empties",
        ALWAYS,
        (TWO_NAMES,),
    ),
    Mutant(
        "SQLite, two processes: a process notices that its file was taken from it",
        "process-notices-file-taken",
        Instead("return os.fstat(self._log_fd).st_size"),
        (TWO_NAMES,),
    ),
    Mutant(
        "SQLite: no new store is made beside the log of one that was moved",
        "no-new-store-made-beside-log",
        NEVER,
        (HOLD + "no_new_store_is_made_beside_the_log_of_one_that_was_taken_away",),
    ),
    Mutant(
        "SQLite: a store that was lost ends the block in which it is open",
        "store-lost-ends-block-in-open",
        DROP,
        (HOLD + "a_process_that_writes_nothing_notices_it_within_a_second",),
    ),
    Mutant(
        "SQLite: what was written and cannot be looked at is not called unwritten",
        "written-and-cannot-looked",
        Swap(".leaving_it_open()", ""),
        (LOOKS + "an_append_that_is_written_and_cannot_be_looked_at_is_left_open",),
    ),
    Mutant(
        "SQLite: the writer does not repeat what may have been written",
        "writer-does-not-repeat",
        Value("False"),
        (LOOKS + "the_writer_does_not_repeat_what_may_have_been_written",),
    ),
    Mutant(
        "SQLite: a look that is late does not call a checkpoint a loss",
        "look-late-does-not-call-checkpoint",
        Swap("known", "self._counter"),
        (LOOKS + "a_checkpoint_between_the_looks_of_two_threads_is_no_loss",),
    ),
    Mutant(
        "SQLite: a cancelled opening closes what its thread has opened",
        "cancelled-opening-closes",
        DROP,
        (LOOKS + "an_opening_that_is_cancelled_at_any_moment_leaves_nothing_open",),
    ),
    Mutant(
        "SQLite: a newcomer takes up no log that belongs to another file",
        "newcomer-takes-up-no-log-belongs",
        NEVER,
        (HOLD + "a_newcomer_does_not_take_up_the_log_of_a_file_that_is_held_elsewhere",),
    ),
    Mutant(
        "SQLite: a file with two names is refused",
        "file-with-two-names-refused",
        NEVER,
        (HOLD + "a_file_with_two_names_is_refused_by_each_of_them",),
    ),
    Mutant(
        "SQLite: a path is resolved when the store is opened",
        "path-resolved-when-store-opened",
        Value("Path(path)"),
        (HOLD + "a_driver_is_seen_by_whatever_path_the_store_is_opened",),
    ),
    Mutant(
        "SQLite: a forked child keeps no lock of its parent",
        "forked-child-keeps-no-lock",
        Swap("_close_in_child", "_lock.release"),
        (HOLD + "a_forked_child_does_not_make_a_dead_driver_look_alive",),
    ),
    Mutant(
        "Tools do not open the files of a store that their process has open",
        "tools-do-not-open-files",
        NEVER,
        ("tests/tools/test_store_files.py",),
    ),
    Mutant(
        "SQLite: a lease is held only under a name that others see",
        "lease-held-only-under-name-others",
        ALWAYS,
        (LEASE + "a_driver_whose_file_was_cleared_away_as_it_began_takes_a_new_one",),
    ),
    Mutant(
        "Postgres: a request can be taken once (the index)",
        "postgres-request-can-taken-once",
        Swap("UNIQUE ", ""),
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a place can be taken once (the key)",
        "postgres-place-can-taken-once",
        Swap("PRIMARY KEY (journal, position", "CHECK (position > 0"),
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: facts and decisions of others reach watchers by NOTIFY",
        "facts-and-decisions-of-others",
        DROP,
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "SQLite: who gives up at the turnstile has appended nothing",
        "gives-up-at-turnstile-has",
        Value("jobs"),
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "Postgres: a batch compares heads",
        "batch-compares-heads",
        Swap("coalesce(j.head, 0) <> w.expected OR ", ""),
        (LOCKS + "a_request_is_not_decided_on_a_run_that_has_changed_elsewhere",),
    ),
    Mutant(
        "Postgres: a batch locks the heads that it compares",
        "batch-locks-heads-compares",
        DROP,
        (LOCKS + "a_request_waits_for_one_that_changes_a_run_it_only_looks_at",),
    ),
    Mutant(
        "Postgres: a request locks the heads that it is decided on",
        "request-locks-heads-decided",
        DROP,
        (LOCKS + "a_request_waits_for_one_that_changes_a_run_it_only_looks_at",),
    ),
    Mutant(
        "Postgres: whoever reads a switch holds it (FOR SHARE)",
        "reads-switch-holds",
        Swap(" FOR SHARE", ""),
        (LOCKS + "a_kill_waits_for_a_claim_that_has_read_the_switch",),
    ),
    Mutant(
        "Postgres: a switch that nobody has set has a row to lock",
        "switch-nobody-has-set-has-row",
        Instead("            EXIT;"),
        (LOCKS + "a_kill_waits_for_a_claim_that_has_read_the_switch",),
    ),
    Mutant(
        "Postgres: a kill holds its switch",
        "kill-holds-switch",
        Swap(" FOR UPDATE", ""),
        (LOCKS + "a_release_waits_for_a_kill_of_its_scope_that_is_under_way",),
    ),
    Mutant(
        "Postgres: a kill locks the runs in its scope",
        "kill-locks-runs-in-scope",
        DROP,
        (LOCKS + "a_kill_waits_for_an_append_that_is_half_way_and_ends_the_run_after_it",),
    ),
    Mutant(
        "Postgres: whoever judges a lease holds it (FOR SHARE)",
        "judges-lease-holds",
        Swap(" FOR SHARE", ""),
        (LOCKS + "a_claim_waits_for_the_old_driver_who_is_renewing_its_lease",),
    ),
    Mutant(
        "Postgres: whoever judges a lease leaves it to a driver that lives",
        "judges-lease-leaves-to-driver",
        Swap(" AND expires_at <= judged", ""),
        (LOCKS + "a_driver_that_lives_renews_its_lease_while_somebody_waits_to_claim_its_run",),
    ),
    Mutant(
        "Postgres: a lease is renewed also where all connections are busy",
        "lease-renewed-also",
        Without(1),
        (LOCKS + "a_driver_renews_its_lease_while_all_its_connections_wait_for_others",),
    ),
    Mutant(
        "Postgres: the clock goes on while a transaction waits",
        "clock-goes-on-while-transaction",
        Swap("clock_timestamp", "now"),
        (LOCKS + "a_request_that_had_to_wait_is_decided_at_the_time_at_which_it_could",),
    ),
    Mutant(
        "Postgres: a purge leaves alone what somebody is changing",
        "purge-leaves-alone-what-somebody",
        Swap(" FOR UPDATE SKIP LOCKED", ""),
        (LOCKS + "a_run_that_is_being_recovered_is_not_purged",),
    ),
    Mutant(
        "a purge leaves what a run that stays was forked from",
        "purge-leaves-what-run-stays-forked",
        Swap("del going[run]", "return list(going)"),
        ("tests/stores/test_contract_purge.py",),
    ),
    Mutant(
        "SQLite: a long journal is folded before the lock is taken",
        "long-journal-folded-before-lock",
        NEVER,
        ("tests/stores/test_long_journals.py",),
    ),
    Mutant(
        "SQLite: what was folded outside is not used again after a rollback",
        "folded-outside-not-used-again",
        Swap("journal", "folded = dict(folded)\n            journal"),
        ("tests/stores/test_long_journals.py",),
    ),
    Mutant(
        "Postgres: what others have added is folded before the lock is taken",
        "others-have-added-folded",
        NEVER,
        ("tests/stores/test_long_journals.py",),
    ),
    Mutant(
        "a purge leaves what a run that stays has begun",
        "purge-leaves-what-run-stays",
        Swap(" + begun", ""),
        ("tests/stores/test_contract_purge.py",),
    ),
    Mutant(
        "who forks a run holds it against a purge",
        "forks-run-holds-against-purge",
        Without(0),
        ("tests/scenarios/test_fork.py",),
    ),
    Mutant(
        "Postgres: a purge leaves what a run that stays was forked from",
        "postgres-purge-leaves-what-run-stays-forked",
        Swap("still_needed(page)", "'{}'"),
        ("tests/stores/test_contract_purge.py",),
    ),
    Mutant(
        "Postgres: whoever refers to a value holds it",
        "refers-to-value-holds",
        Swap("UPDATE SET hash = excluded.hash", "NOTHING"),
        (LOCKS + "a_value_that_is_being_referred_to_anew_is_not_purged",),
    ),
    Mutant(
        "Postgres: a purge locks values before it looks who refers to them",
        "purge-locks-values-before-looks",
        DROP,
        (LOCKS + "a_value_that_is_being_referred_to_anew_is_not_purged",),
    ),
    Mutant(
        "Postgres: a batch knows the ids of requests",
        "batch-knows-ids-of-requests",
        Swap("EXISTS (SELECT FROM events AS e WHERE e.append_id = r.id AND e.requested)", "false"),
        (REPEATS + "a_repeated_submit_that_would_now_be_answered_elsewhere_stays_where_it_was",),
    ),
    Mutant(
        "Postgres: a lone append knows the ids of requests",
        "lone-append-knows-ids-of-requests",
        Swap("EXISTS (SELECT FROM events WHERE append_id = $20 AND requested)", "$20 = ''"),
        (REPEATS + "a_repeated_submit_that_now_needs_fewer_journals_stays_where_it_was",),
    ),
    Mutant(
        "Postgres: a request under lock knows its id",
        "request-under-lock-knows-id",
        Swap("EXISTS (SELECT FROM events WHERE append_id = request_id AND requested)", "false"),
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a kill knows its id",
        "kill-knows-id",
        Swap("EXISTS (SELECT FROM events WHERE append_id = kill_id AND requested)", "false"),
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a lone append compares heads",
        "lone-append-compares-heads",
        Swap("head = $2", "$2::bigint > 0"),
        (CHECKS + "where_a_backup_was_put_back_a_driver_that_is_ahead_leaves_no_hole",),
    ),
    Mutant(
        "Postgres: a lone append is stamped near the server's time",
        "lone-append-compares-heads",
        Swap("abs(clock() - $15) < 5", "$15::double precision > 0"),
        (CHECKS + "after_a_clock_has_jumped_events_are_stamped_with_the_servers_time",),
    ),
    Mutant(
        "Postgres: a batch is stamped near the server's time",
        "batch-compares-heads",
        Swap(" OR NOT in_time", ""),
        (CHECKS + "after_a_clock_has_jumped_events_are_stamped_with_the_servers_time",),
    ),
    Mutant(
        "Postgres: our clock is moved to the server's",
        "our-clock-moved-to-server",
        Value("self._local()"),
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a clock that was refused is set anew",
        "clock-refused-set-anew",
        Instead("return"),
        (CHECKS + "after_a_clock_has_jumped_events_are_stamped_with_the_servers_time",),
    ),
    Mutant(
        "the clock of Postgres: one slow answer does not set it back",
        "one-slow-answer-does-not-set",
        Value("self._lately"),
        ("tests/stores/test_postgres_clock.py",),
    ),
    Mutant(
        "Postgres: a claim judges leases by the server's clock",
        "claim-judges-leases-by-server",
        Swap(" AND expires_at > judged", ""),
        (CHECKS + "a_lease_that_has_run_out_is_over_for_everybody",),
    ),
    Mutant(
        "Postgres: a sweep judges leases by the server's clock",
        "sweep-judges-leases-by-server",
        Swap(" AND l.expires_at > (SELECT clock())", ""),
        (CHECKS + "a_lease_that_has_run_out_is_over_for_everybody",),
    ),
    Mutant(
        "Postgres: whoever asks is told of leases by the server's clock",
        "asks-told-of-leases-by-server",
        Swap(" AND expires_at > clock()", ""),
        (CHECKS + "a_lease_that_has_run_out_is_over_for_everybody",),
    ),
    Mutant(
        "Postgres: the name of a living driver is its own",
        "name-of-living-driver-own",
        Swap("l.holder = excluded.holder OR l.expires_at <= clock()", "true"),
        (DRIVERS + "nobody_takes_the_name_of_a_driver_that_lives",),
    ),
    Mutant(
        "Postgres: a lease is given back by its holder only",
        "lease-given-back-by-holder-only",
        Swap("holder = $2", "$2::text <> ''"),
        (CHECKS + "who_has_lost_its_lease_to_a_namesake_does_not_take_it_away_again",),
    ),
    Mutant(
        "Postgres: a lease counts from when its renewal was sent",
        "lease-counts-from-when-renewal",
        Value("steady()"),
        (CHECKS + "a_lease_is_held_from_when_its_renewal_was_sent_and_not_from_the_answer",),
    ),
    Mutant(
        "Postgres: who cannot renew its lease stops by itself",
        "cannot-renew-lease-stops",
        Value("self._renewed > 0"),
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a commit waits for the disk",
        "commit-waits-for-disk",
        Swap("set_config('synchronous_commit', 'on', false)", "'off'"),
        (CHECKS + "whatever_the_servers_defaults_a_commit_is_on_disk_and_no_lock_is_for_ever",),
    ),
    Mutant(
        "Postgres: every statement sees what was committed before it",
        "every-statement-sees",
        DROP,
        (CHECKS + "whatever_the_servers_defaults_a_commit_is_on_disk_and_no_lock_is_for_ever",),
    ),
    Mutant(
        "Postgres: no lock is waited for without end",
        "no-lock-waited-for-without-end",
        DROP,
        (CHECKS + "a_lock_that_is_never_released_does_not_hold_up_other_runs",),
    ),
    Mutant(
        "Postgres: a process that froze loses its locks",
        "process-froze-loses-locks",
        DROP,
        (CHECKS + "a_process_that_froze_with_locks_loses_them",),
    ),
    Mutant(
        "Postgres: what the server refuses fails alone in its batch",
        "server-refuses-fails",
        NEVER,
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: tasks of a process take turns at a journal",
        "tasks-of-process-take-turns",
        NEVER,
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a state whose append failed is folded again",
        "state-append-failed-folded-again",
        DROP,
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: polling, where a NOTIFY is lost",
        "polling-where-notify-lost",
        Swap('self._hub.moved({row["journal"]: row["head"] for row in rows})', "del rows"),
        (
            "tests/stores/test_postgres_lost.py::test_what_a_process_wrote_and_could_not_tell_is_found_by_looking",
        ),
    ),
    Mutant(
        "Postgres: whoever is alone hears when it is not any more",
        "alone-hears-when-not-any-more",
        DROP,
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a newer layout is left alone",
        "postgres-newer-layout-left-alone",
        NEVER,
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: those who open a new store take turns",
        "those-open-new-store-take-turns",
        DROP,
        (POSTGRES + "whoever_opens_a_new_store_waits_for_another_who_is_creating_it",),
    ),
    Mutant(
        "SQLite: a request can be taken once (the index)",
        "request-can-taken-once",
        Swap("UNIQUE ", ""),
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: the loop and the thread are not at the desk together",
        "loop-and-thread-not-at-desk",
        Swap("self._desk", "suppress()"),
        (DESK + "the_loop_does_not_write_while_the_thread_is_at_the_desk",),
    ),
    Mutant(
        "SQLite: who was frozen does not blame another process",
        "frozen-does-not-blame-another",
        DROP,
        (TROUBLE + "who_was_frozen_does_not_say_that_another_process_kept_the_store_busy",),
    ),
    Mutant(
        "SQLite: a lone job does not overtake",
        "lone-job-does-not-overtake",
        Without(1),
        (DESK + "a_lone_job_is_not_written_before_an_earlier_one_was_delivered",),
    ),
    Mutant(
        "SQLite: a job that breaks its batch fails alone",
        "job-breaks-batch-fails-alone",
        ALWAYS,
        (DESK + "a_job_that_breaks_its_batch_fails_alone",),
    ),
    Mutant(
        "SQLite: the loop writes in its turn only (without waiting)",
        "loop-writes-in-turn-only",
        Without(1),
        (WRITER + "while_another_process_is_before_us_the_thread_waits_for_our_turn",),
    ),
    Mutant(
        "SQLite: one at a time (the turnstile's gate)",
        "one-at-time",
        Value("True"),
        (WRITER + "while_another_process_is_before_us_the_thread_waits_for_our_turn",),
    ),
    Mutant(
        "SQLite: nobody overtakes another who waits (the turnstile's door)",
        "nobody-overtakes-another-waits",
        NEVER,
        (WRITER + "while_another_process_is_before_us_the_thread_waits_for_our_turn",),
    ),
    Mutant(
        "SQLite: nobody waits at the turnstile without end",
        "nobody-waits-at-turnstile-without",
        DROP,
        (TROUBLE + "a_caller_that_gives_up_at_the_turnstile_has_truly_appended_nothing",),
    ),
    Mutant(
        "SQLite: a file that is locked for a moment is waited for",
        "file-locked-for-moment-waited",
        Value("time.monotonic()"),
        (TROUBLE + "a_program_that_locks_the_file_for_a_moment_is_waited_for",),
    ),
    Mutant(
        "SQLite: the file is its owner's alone",
        "file-owner-alone",
        Swap("0o600", "0o644"),
        (TROUBLE + "nobody_else_on_the_machine_may_read_the_store",),
    ),
    Mutant(
        "SQLite: the folder beside it is its owner's alone",
        "folder-beside-owner-alone",
        Swap("0o700", "0o755"),
        (TROUBLE + "nobody_else_on_the_machine_may_read_the_store",),
    ),
    Mutant(
        "SQLite: what only reads cannot write",
        "only-reads-cannot-write",
        DROP,
        (TROUBLE + "what_only_reads_cannot_write",),
    ),
    Mutant(
        "SQLite: another program's file is left alone",
        "another-program-file-left-alone",
        NEVER,
        (TROUBLE + "another_programs_database_is_left_alone",),
    ),
    Mutant(
        "SQLite: a newer layout is left alone",
        "newer-layout-left-alone",
        NEVER,
        (TROUBLE + "a_newer_layout_asks_for_an_upgrade",),
    ),
    Mutant(
        "SQLite: a kill that fails half-way is taken back",
        "kill-fails-half-way-taken-back",
        DROP,
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "SQLite: a lease is a lock",
        "lease-lock",
        NEVER,
        (DRIVERS + "nobody_takes_the_name_of_a_driver_that_lives",),
    ),
    Mutant(
        "SQLite: the file of a living driver is not cleared away",
        "file-of-living",
        DROP,
        (LEASE + "the_file_of_a_living_driver_is_not_cleared_away",),
    ),
    Mutant(
        "SQLite: letters that are owed do not pile up",
        "letters-owed-do-not-pile",
        DROP,
        ("tests/stores/test_sqlite_nudge.py",),
    ),
    Mutant(
        "SQLite: what did not fit into a full box is owed",
        "did-not-fit-into-full",
        DROP,
        ("tests/stores/test_sqlite_nudge.py",),
    ),
    Mutant(
        "a driver's name is one in every store",
        "driver-name-one-in-every-store",
        NEVER,
        (DRIVERS + "a_name_that_cannot_be_a_drivers_is_refused_before_it_is_in_a_journal",),
    ),
    Mutant(
        "SQLite: a name that cannot be a driver's leads nowhere",
        "name-cannot-driver-leads-nowhere",
        NEVER,
        ("tests/stores/test_sqlite_lease_files.py",),
    ),
    Mutant(
        "SQLite: a migration is one transaction",
        "migration-one-transaction",
        Instead('db.execute(statement)\ndb.execute("COMMIT")\ndb.execute("BEGIN IMMEDIATE")'),
        (MIGRATIONS + "who_is_killed_in_the_middle_leaves_sqlites_file_as_it_was",),
    ),
    Mutant(
        "Postgres: a migration is one transaction",
        "postgres-migration-one-transaction",
        Swap("async with connection.transaction()", "if True"),
        (MIGRATIONS + "who_dies_in_the_middle_leaves_postgres_tables_as_they_were",),
    ),
    Mutant(
        "Postgres: a server that says nothing is taken for lost",
        "server-says-nothing-taken-for-lost",
        NEVER,
        ("tests/stores/test_postgres_lost.py::test_a_server_that_falls_silent_is_taken_for_lost",),
    ),
    Mutant(
        "Postgres: what was lost on its way is sent again",
        "lost-on-way-sent-again",
        ALWAYS,
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "CI: a test that was not run has not passed",
        "test-not-run-has-not-passed",
        Value("True"),
        ("tests/test_left_out.py",),
    ),
    Mutant(
        "Postgres: a purge leaves alone the thread in which a run begins",
        "purge-leaves-alone-thread-in-run",
        Swap(" FOR UPDATE SKIP LOCKED", ""),
        (LOCKS + "a_thread_in_which_a_run_is_being_started_is_not_purged",),
    ),
    Mutant(
        "Postgres: a purge looks once more, under lock, whether a run began in a thread",
        "purge-looks-once-more-under-lock",
        Swap("r.thread = t", "false"),
        (LOCKS + "a_thread_in_which_a_run_began_while_the_purge_was_looking_is_not_purged",),
    ),
    Mutant(
        "SQLite: a job is taken or given up, and never both",
        "job-taken-or-given",
        Swap("self._taking", "suppress()"),
        (DESK + "a_job_is_taken_or_given_up_and_never_both",),
    ),
    Mutant(
        "Postgres: a statement whose client died is ended",
        "statement-client-died-ended",
        Swap("set_config('client_connection_check_interval', '500ms', false)", "'never'"),
        (CHECKS + "a_process_that_died_while_it_waited_gives_its_locks_back_soon",),
    ),
    Mutant(
        "SQLite: who clears away looks whether it is still that file",
        "clears-away-looks",
        ALWAYS,
        (
            LEASE
            + "who_clears_away_a_dead_drivers_file_leaves_that_of_a_namesake_who_has_just_begun",
        ),
    ),
    Mutant(
        "runtime: a stop before the first line prevents it",
        "stop-before-first-line-prevents",
        Swap(" and step.host.gate.may_start(step.course)", ""),
        (START + "a_cancel_between_the_record_of_a_start_and_its_first_line_prevents_it",),
    ),
    Mutant(
        "runtime: a start is decided on what was read last",
        "start-decided-on-what-read",
        NEVER,
        (START + "a_pause_just_before_a_start_is_written_lets_it_begin_after_the_resume",),
    ),
    Mutant(
        "runtime: who is not sure of its lease starts nothing",
        "not-sure-of-lease-starts-nothing",
        Without(1),
        (START + "a_driver_that_is_not_sure_of_its_lease_starts_nothing_until_it_is",),
    ),
    Mutant(
        "runtime: a request that is not consumed yet holds starts back",
        "not-sure-of-lease-starts-nothing",
        Without(3),
        ("tests/scenarios/test_steer.py",),
    ),
)
