"""The protecting layers against a Postgres that is not as it should be; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Mutant, Swap, Value, Without

LOST = "tests/stores/test_postgres_lost.py::test_"
POOLER = "tests/stores/test_postgres_pooler.py::test_"
SWITCHES = "tests/stores/test_postgres_switches.py::test_"
LIMITS = "tests/stores/test_postgres_limits.py::test_"
FOLDS = "tests/stores/test_contract_folds.py::test_"
READ_ONLY = "tests/stores/test_postgres_read_only.py::test_"

POSTGRES_MUTANTS = (
    Mutant(
        "Postgres: what was done while nothing could be written is kept",
        "what-done",
        Without(2),
        ("tests/scenarios/test_read_only.py",),
    ),
    Mutant(
        "Postgres: a connection that takes nothing is given up for another",
        "connection-takes-nothing-given",
        Without(7),
        (READ_ONLY + "an_append_waits_for_the_primary_and_is_there_once",),
    ),
    Mutant(
        "Postgres: what only reads looks for the primary too",
        "what-only-reads",
        Value("True"),
        (READ_ONLY + "who_has_read_from_a_standby_reads_from_the_primary_soon_after",),
    ),
    Mutant(
        "Postgres: who asks whether all is well hears that nothing can be written",
        "asks-whether-all-well-hears",
        DROP,
        (READ_ONLY + "the_server_is_not_well_while_its_store_can_only_be_read",),
    ),
    Mutant(
        "Postgres: a role's limit for statements is not ours",
        "role-limit-for-statements-not-ours",
        DROP,
        (LIMITS + "a_time_limit_of_the_role_does_not_end_what_the_store_does",),
    ),
    Mutant(
        "Postgres: a role's limit for transactions is not ours",
        "role-limit-for-transactions",
        Swap("set_config('transaction_timeout', '0', false)", "''"),
        (LIMITS + "a_time_limit_of_the_role_does_not_end_what_the_store_does",),
    ),
    Mutant(
        "Postgres: a connection that died without a word leaves time for another",
        "connection-died-without-word",
        Value("10.0"),
        (
            LOST + "what_is_read_over_a_dead_connection_is_read_over_another",
            LOST + "a_dead_connection_does_not_keep_a_process_from_hearing_of_a_stop",
        ),
    ),
    Mutant(
        "Postgres: a request under lock leaves time for another try",
        "request-under-lock-leaves-time",
        Value("12.0"),
        (LOST + "what_was_committed_over_a_connection_that_then_died_is_there_once",),
    ),
    Mutant(
        "Postgres: a lease that is lost is told of",
        "lease-lost-told",
        ALWAYS,
        (LOST + "a_lease_that_is_lost_is_told_of_once_and_so_is_that_it_is_held_again",),
    ),
    Mutant(
        "Postgres: a pooler that keeps settings back is refused",
        "pooler-keeps-settings-back-refused",
        NEVER,
        (POOLER + "a_pooler_that_cannot_work_is_refused_in_words_and_nothing_is_created",),
    ),
    Mutant(
        "Postgres: a pooler that shares sessions is refused",
        "pooler-shares-sessions-refused",
        NEVER,
        (POOLER + "a_pooler_that_cannot_work_is_refused_in_words_and_nothing_is_created",),
    ),
    Mutant(
        "Postgres: what news do for speed is not done to others",
        "news-do-for-speed",
        Swap("true", "false"),
        (POOLER + "what_news_do_for_speed_stays_in_their_own_transactions",),
    ),
    Mutant(
        "Postgres: the switch of a thread that is stopped stays",
        "switch-of-thread-stopped-stays",
        Swap("NOT s.is_on", "true"),
        (SWITCHES + "the_switch_of_a_thread_goes_with_it_unless_it_is_on",),
    ),
    Mutant(
        "Postgres: a purge does not wait for switches",
        "purge-does-not-wait-for-switches",
        Swap(" SKIP LOCKED", ""),
        (SWITCHES + "a_purge_does_not_wait_for_who_starts_something_and_leaves_them_their_switch",),
    ),
    Mutant(
        "Postgres: a kill sets its switch also if that was removed under its hands",
        "kill-sets-switch-also-if-removed",
        Swap(" WHEN FOUND", ""),
        (SWITCHES + "a_kill_whose_switch_is_removed_under_its_hands_sets_another",),
    ),
    Mutant(
        "Postgres: whose append was not answered is not told that nothing was changed",
        "append-not-answered",
        DROP,
        (LOST + "a_server_that_stays_away_is_reported_and_the_append_may_be_repeated",),
    ),
    Mutant(
        "Postgres: those who write a stored fold take turns",
        "writers-of-fold-take-turns",
        DROP,
        (FOLDS + "a_fold_that_had_to_wait_is_compared_with_the_one_it_waited_for",),
    ),
    Mutant(
        "Postgres: the head is not locked while a stored fold is written",
        "fold-refers-to-head-last",
        Swap("DEFERRABLE INITIALLY DEFERRED", ""),
        (FOLDS + "appends_and_a_cancel_go_on_while_a_fold_is_written",),
    ),
    Mutant(
        "Postgres: a stored fold whose journal is being purged is not kept",
        "fold-of-purged-journal-not-kept",
        Swap("Orphaned", "Taken"),
        (FOLDS + "a_fold_whose_journal_is_being_purged_is_not_kept",),
    ),
    Mutant(
        "Postgres: a stored fold whose past is another journal's is not kept",
        "postgres-fold-of-same-past",
        Swap("at = $3", "$3::float8 > 0"),
        (FOLDS + "a_fold_whose_past_is_of_another_journal_is_not_kept",),
    ),
    Mutant(
        "stored folds: on SQLite one whose past is another journal's is not kept",
        "sqlite-fold-of-same-past",
        Swap("at = ?", "? > 0"),
        (FOLDS + "a_fold_whose_past_is_of_another_journal_is_not_kept",),
    ),
    Mutant(
        "stored folds: in memory one whose past is another journal's is not kept",
        "memory-fold-of-same-past",
        Swap("[x.at for x in there] == [fold.at]", "bool(there)"),
        (FOLDS + "a_fold_whose_past_is_of_another_journal_is_not_kept",),
    ),
)
