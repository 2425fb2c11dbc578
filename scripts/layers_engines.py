"""The protecting layers of engines and of many machines; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Instead, Mutant, Swap, Value, Without

ENGINES, STORES = "src/midflight/engines/", "src/midflight/stores/"
CONTRACT = "tests/engines/test_contract.py::test_"
ECHO = "tests/stores/test_postgres_echo.py::test_"

ENGINE_MUTANTS = (
    Mutant(
        "engines: what nobody was told of is found by the sweep",
        "nobody-told-of-found",
        DROP,
        (CONTRACT + "who_dies_between_append_and_ensure_leaves_it_to_the_sweep",),
    ),
    Mutant(
        "engines: a run that is driven is not driven once more",
        "run-driven-not-driven-once-more",
        ALWAYS,
        (CONTRACT + "asked_for_many_times_at_once_it_has_one_driver",),
    ),
    Mutant(
        "engines: what needs no driver is not claimed",
        "needs-no-driver-not-claimed",
        Swap("(state.wants_driver or due or Cause.DRAIN in state.holds)", "state.alive"),
        (CONTRACT + "asking_for_what_needs_no_driver_does_nothing",),
    ),
    Mutant(
        "engines: what a lost worker tells late is not waited for",
        "lost-worker-tells-late",
        DROP,
        (
            "tests/scenarios/test_lost_worker.py::"
            "test_what_it_tells_late_is_not_waited_for_by_a_function_on_its_way_there",
        ),
    ),
    Mutant(
        "runtime: how old a key is goes by the store's clock",
        "how-old-key-goes-by-store",
        Swap("journal.clock.now", "clock"),
        (
            "tests/scenarios/test_replay.py::"
            "test_how_old_a_key_is_goes_by_the_stores_clock_whatever_the_workers_says",
        ),
    ),
    Mutant(
        "engines: what a leaving worker cuts short is on record",
        "leaving-worker-cuts-short",
        DROP,
        (
            "tests/scenarios/test_drain.py::"
            "test_what_does_not_end_in_time_is_cut_short_on_record_and_asked_about",
        ),
    ),
    Mutant(
        "Postgres workers: one that is not sure of its lease closes its door",
        "one-not-sure-of-lease-closes",
        DROP,
        (
            "tests/engines/test_outages.py::"
            "test_a_worker_cut_off_in_a_step_begins_nothing_after_its_lease_and_is_followed",
        ),
    ),
    Mutant(
        "Postgres workers: one that Restate does not know tells it again",
        "one-restate-does-not-know-tells",
        DROP,
        (
            "tests/engines/test_outages.py::"
            "test_a_restate_that_has_forgotten_everything_is_told_again",
        ),
    ),
    Mutant(
        "Postgres workers: one at an address where others were has Restate look anew",
        "one-at-address-where-others-has",
        Swap("service not in", "not"),
        (
            "tests/engines/test_known.py::"
            "test_at_an_address_where_others_used_to_be_runs_are_driven_all_the_same",
        ),
    ),
    Mutant(
        "Postgres workers: one whose code is not called any more says so",
        "one-code-not-called-any-more",
        Swap('where.rstrip("/") != uri.rstrip("/")', "not where"),
        (
            "tests/engines/test_known.py::"
            "test_after_a_rollback_the_old_workers_say_that_calls_go_to_the_newer_ones",
        ),
    ),
    Mutant(
        "Postgres workers: whoever says yes to everything is no Restate",
        "says-yes-to-everything-no-restate",
        DROP,
        ("tests/engines/test_known.py::test_an_ingress_that_is_no_restate_is_not_taken_for_one",),
    ),
    Mutant(
        "engines: what an operator has stopped is not asked for",
        "operator-has-stopped",
        Without(1),
        (
            "tests/engines/test_sweep.py::"
            "test_for_what_an_operator_has_stopped_nobody_is_asked_until_its_release",
        ),
    ),
    Mutant(
        "engines: a run for which nobody comes is told of",
        "run-for-nobody-comes-told",
        Instead("continue"),
        (
            "tests/engines/test_sweep.py::"
            "test_runs_for_which_nobody_comes_are_told_of_once_for_each_agent",
        ),
    ),
    Mutant(
        "engines: an undo in the dark proves nothing",
        "undo-in-dark-proves-nothing",
        DROP,
        (
            "tests/journal/test_receipt.py::test_what_happened_late_may_have_happened_after_its_undo",
        ),
    ),
    Mutant(
        "Postgres workers: SIGTERM is ours and not the SDK's",
        "sigterm-ours-and-not-sdk",
        Instead("return"),
        (
            "tests/engines/test_lost.py::"
            "test_a_worker_that_is_told_to_leave_hands_its_runs_over_and_ends",
        ),
    ),
    Mutant(
        "Postgres echo: words go out only while somebody listens elsewhere",
        "words-go-out-only",
        Swap(
            "voice.journal in self._wanted and not self._is_far(voice):",
            "not self._is_far(voice):\n            self._wanted[voice.journal] = 1e18",
        ),
        (ECHO + "nothing_is_passed_on_while_nobody_listens_elsewhere",),
    ),
    Mutant(
        "Postgres echo: who stops listening is forgotten",
        "stops-listening-forgotten",
        ALWAYS,
        (ECHO + "nothing_more_is_passed_on_when_nobody_listens_any_more",),
    ),
    Mutant(
        "Postgres echo: a lost piece is asked for again",
        "lost-piece-asked-for-again",
        DROP,
        (ECHO + "a_lost_piece_is_asked_for_again",),
    ),
    Mutant(
        "engines: a closed terminal that says so twice ends nothing at once",
        "closed-terminal-says-so-twice-ends",
        NEVER,
        (
            "tests/scenarios/test_drain.py::"
            "test_a_terminal_that_closes_may_say_so_several_times_and_hurries_nobody",
        ),
    ),
    Mutant(
        "engines: whoever drives is told of runs that others have begun",
        "drives-told-of-runs-others-have",
        NEVER,
        ("tests/engines/test_told.py",),
    ),
    Mutant(
        "engines: a block is counted from between the last answer and the question",
        "block-counted",
        Value("time.monotonic()"),
        (
            "tests/engines/test_watchdog.py::"
            "test_the_time_that_it_tells_is_right_by_half_of_the_interval_at_which_it_looks",
        ),
    ),
    Mutant(
        "engines: a process that was stopped blames no tool",
        "process-stopped-blames-no-tool",
        ALWAYS,
        (
            "tests/engines/test_watchdog.py::"
            "test_a_process_that_was_stopped_and_goes_on_blames_nobody",
        ),
    ),
    Mutant(
        "Postgres echo: a voice that has ended is forgotten elsewhere",
        "voice-has-ended-forgotten",
        DROP,
        (ECHO + "a_voice_that_has_ended_is_not_told_to_newcomers",),
    ),
)
