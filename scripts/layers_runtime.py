"""The protecting layers of the runtime, its engine and its tools; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Mutant, Swap, Value, Without

TOLD = "tests/scenarios/test_told_late.py::test_"
APPROVALS = "tests/attacks/test_approvals.py::test_"
FIRST = "tests/scenarios/test_told_first.py::test_"
WRITTEN = "tests/scenarios/test_cancel_written.py::test_"
CARRIED = "tests/scenarios/test_carried.py::test_"
TWICE = "tests/scenarios/test_nothing_twice.py::test_"
FOLDS = "tests/runtime/test_stored_folds.py::test_"

RUNTIME_MUTANTS = (
    Mutant(
        "told first: what must not happen twice is on record first",
        "must-not-happen-twice",
        Without(0),
        (FIRST + "an_effect_that_may_not_be_repeated_is_on_record_first",),
    ),
    Mutant(
        "a plain step: it begins only while nobody stops, counts or watches the run",
        "begins-only-while-nobody-stops",
        Without(0),
        ("tests/scenarios/test_start.py", "tests/scenarios/test_verbs.py"),
    ),
    Mutant(
        "a plain step: a change that may be in its way ends the calm",
        "change-may-in-way-ends-calm",
        DROP,
        ("tests/scenarios/test_start.py", "tests/scenarios/test_cancel.py"),
    ),
    Mutant(
        "a plain step: who waits for what it changes is asked",
        "waits-for-what-changes-asked",
        DROP,
        (
            "tests/runtime/test_parts.py::"
            "test_a_wait_that_begins_in_a_calm_run_hears_of_its_plain_steps",
        ),
    ),
    Mutant(
        "told first: what is known is on record before a read begins",
        "known-on-record-before-read",
        DROP,
        (FIRST + "no_read_begins_before_what_is_known_is_on_record",),
    ),
    Mutant(
        "told first: what is known is on record before a call that is no step",
        "known-on-record-before-call",
        DROP,
        (FIRST + "no_look_at_a_guard_begins_before_what_is_known_is_on_record",),
    ),
    Mutant(
        "told first: what is known is on record before the thread is read",
        "known-on-record-before-thread",
        DROP,
        (FIRST + "no_call_of_the_function_begins_before_what_is_known_is_on_record",),
    ),
    Mutant(
        "told first: what is known is on record before a request of the run",
        "known-on-record",
        DROP,
        (
            "tests/runtime/test_parts.py::"
            "test_what_is_known_is_on_record_before_a_request_of_the_run",
        ),
    ),
    Mutant(
        "told first: what is known is on record soon, also where nothing follows",
        "known-on-record-soon-also",
        DROP,
        (FIRST + "a_function_that_does_something_else_has_its_outcome_written_soon",),
    ),
    Mutant(
        "told first: a press finds what was done on record",
        "press-finds-what-done-on-record",
        DROP,
        (FIRST + "a_press_has_what_is_known_written_at_once",),
    ),
    Mutant(
        "told first: an outcome is on record before the start that it travels with",
        "outcome-on-record-before-start",
        Swap(
            "(kept if self.calm else record_all(state, kept)), *events",
            "events, *(kept if self.calm else record_all(state, kept))",
        ),
        (FIRST + "a_plain_write_costs_one_append",),
    ),
    Mutant(
        "told first: an outcome whose append has lost is written again",
        "outcome-append-has-lost-written",
        Swap("await", "del self.kept.facts[: len(kept)]\n                await"),
        (FIRST + "an_outcome_is_on_record_though_a_press_came_just_before_its_append",),
    ),
    Mutant(
        "told first: an outcome that loses by itself goes to the store as a request",
        "outcome-loses-by-itself-goes",
        Value("lambda _: Draft()"),
        (FIRST + "an_outcome_is_on_record_though_a_press_came_just_before_its_append",),
    ),
    Mutant(
        "told first: what is known is on record before the run decides anything",
        "known-on-record-before-decision",
        DROP,
        (CARRIED + "nothing_that_the_function_does_comes_before_the_outcome_that_it_knows",),
    ),
    Mutant(
        "told first: what is known is on record before any other outcome",
        "known-on-record-before-fact",
        DROP,
        (FIRST + "steps_at_the_same_time_end_in_the_order_of_their_records",),
    ),
    Mutant(
        "told first: a pause finds what was done on record",
        "press-finds-what-done-on-record",
        Swap("session", "isinstance(record.event, e.PauseRequested) or session"),
        (CARRIED + "whoever_stops_the_run_finds_the_outcome_that_the_function_knows",),
    ),
    Mutant(
        "told first: a cancel finds what was done on record",
        "press-finds-what-done-on-record",
        Swap("session", "isinstance(record.event, e.CancelRequested) or session"),
        (CARRIED + "whoever_stops_the_run_finds_the_outcome_that_the_function_knows",),
    ),
    Mutant(
        "told first: a redirect finds what was done on record",
        "press-finds-what-done-on-record",
        Swap("session", "isinstance(record.event, e.RedirectRequested) or session"),
        (CARRIED + "whoever_stops_the_run_finds_the_outcome_that_the_function_knows",),
    ),
    Mutant(
        "told first: a watcher is shown a step as done when that is on record",
        "shown-as-done-when-on-record",
        Swap(
            "learn(told)",
            "learn(told); self.client._store._hub.publish("
            "(Recorded(self.run, self.state.head + 1, told, settled),))",
        ),
        (CARRIED + "a_watcher_sees_a_step_as_done_when_that_is_on_record",),
    ),
    Mutant(
        "told first: an outcome is not left out of the append that has room for it",
        "outcome-on-record-before-start",
        DROP,
        (CARRIED + "hundreds_of_steps_cost_little_more_than_a_commit_each",),
    ),
    Mutant(
        "told first: after a crash a function sees the time at which it was told",
        "after-crash-function-sees-time",
        Without(0),
        (FIRST + "after_a_crash_the_function_sees_the_same_times",),
    ),
    Mutant(
        "told first: where a cap counts the record is first",
        "where-cap-counts-record-first",
        Without(1),
        (FIRST + "where_a_cap_counts_the_record_is_first",),
    ),
    Mutant(
        "runtime: a cancel waits until everything in flight has settled",
        "cancel-waits-until-everything",
        DROP,
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "a cancel: what was aborted is on record before the run's end",
        "outcome-on-record-before-end",
        Swap("[*record_all(mine, kept), *events]", "[*events, *record_all(mine, kept)]"),
        (WRITTEN + "what_was_aborted_comes_on_record_in_one_append_with_the_end",),
    ),
    Mutant(
        "told first: what is on record is not sent again, though its writer was cancelled",
        "kept-until-folded",
        DROP,
        (FIRST + "a_function_that_gives_up_a_call_while_an_outcome_is_being_written_goes_on",),
    ),
    Mutant(
        "told first: what is kept during an append is written after it",
        "kept-meanwhile-looked-at",
        DROP,
        (FIRST + "what_is_kept_during_an_append_is_written_soon_after_it",),
    ),
    Mutant(
        "a cancel: what did not come on record with the end is told late",
        "known-taken-along-kept-until-written",
        Swap("along and done.records", "along"),
        (WRITTEN + "a_kill_before_the_end_loses_nothing_that_is_known",),
    ),
    Mutant(
        "a cancel: what is known is on record before anything is undone",
        "known-on-record-before-undo",
        DROP,
        (WRITTEN + "what_is_to_be_undone_is_on_record_before_the_undo_begins",),
    ),
    Mutant(
        "runtime: a cancel undoes",
        "cancel-undoes",
        DROP,
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "runtime: a cancel aborts effects too",
        "cancel-aborts-effects-too",
        Swap("True", "False"),
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "runtime: in boundary mode a pause and a redirect let the step end",
        "in-boundary-mode-pause",
        ALWAYS,
        ("tests/scenarios/test_modes.py",),
    ),
    Mutant(
        "runtime: in boundary mode a cancel lets the step end",
        "in-boundary-mode-cancel",
        Without(0),
        ("tests/scenarios/test_modes.py",),
    ),
    Mutant(
        "runtime: a hurried cancel is heard at once, also in boundary mode",
        "in-boundary-mode-cancel",
        Swap("(now or self._immediate)", "self._immediate"),
        ("tests/scenarios/test_modes.py",),
    ),
    Mutant(
        "runtime: the newest effect is undone first",
        "newest-effect-undone",
        Swap("max", "min"),
        ("tests/scenarios/test_cancel.py",),
    ),
    Mutant(
        "runtime: what is in doubt is checked first",
        "in-doubt-checked-first",
        DROP,
        ("tests/scenarios/test_torture.py",),
    ),
    Mutant(
        "runtime: an undo under way hears a hurried cancel and a kill",
        "undo-under-way-hears-hurried",
        DROP,
        ("tests/scenarios/test_undo.py",),
    ),
    Mutant(
        "runtime: undoing is wanted or not at the moment of its decision",
        "undoing-wanted-or-not-at-moment",
        Without(2),
        ("tests/scenarios/test_undo.py", "tests/scenarios/test_torture.py"),
    ),
    Mutant(
        "runtime: who was aborted and knows that nothing happened is believed",
        "aborted-and-knows-nothing-happened",
        Swap("isinstance(error, NotDone)", "not self._why"),
        ("tests/scenarios/test_torture.py",),
    ),
    Mutant(
        "runtime: a cancel of the tool's own is not taken for ours",
        "cancel-of-tool-own-not-taken",
        Without(1),
        ("tests/scenarios/test_stubborn.py",),
    ),
    Mutant(
        "runtime: a thread that has not begun never does",
        "thread-has-not-begun-never-does",
        NEVER,
        ("tests/scenarios/test_stubborn.py",),
    ),
    Mutant(
        "runtime: a cancelled function is told again whatever it catches",
        "cancelled-function-told-again",
        DROP,
        (
            "tests/scenarios/test_stubborn_agents.py::"
            "test_one_on_its_way_back_that_catches_it_is_told_again_and_given_no_more_records",
        ),
    ),
    Mutant(
        "runtime: a run waits for the steps that its function forgot",
        "run-waits-for-steps-function",
        DROP,
        ("tests/scenarios/test_stubborn_agents.py",),
    ),
    Mutant(
        "runtime: a redirect reaches a function that has just ended",
        "redirect-reaches-function-has-just",
        DROP,
        ("tests/scenarios/test_stubborn_agents.py",),
    ),
    Mutant(
        "engine: a driver that fails harms no other",
        "driver-fails-harms-no-other",
        Swap("(Exception, BaseExceptionGroup)", "Refused"),
        ("tests/scenarios/test_trouble.py",),
    ),
    Mutant(
        "engine: a driver that fails gives its run back",
        "driver-fails-gives-run-back",
        DROP,
        ("tests/scenarios/test_trouble.py",),
    ),
    Mutant(
        "tools: orphans of a process tool come to its supervisor",
        "orphans-of-process-tool-come",
        Value("False"),
        ("tests/scenarios/test_stubborn.py",),
    ),
    Mutant(
        "crash: what a dead driver had in flight is in doubt",
        "dead-driver-had-in-flight",
        Value("Outcome.DONE"),
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "crash: what must happen once is not repeated without a word",
        "must-happen-once-not-repeated",
        ALWAYS,
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "crash: an undo that was cut off is done again",
        "undo-cut-off-done-again",
        Swap("False)", "True)"),
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "runtime: anyio knows the loop also where no task runs",
        "anyio-knows-loop-also",
        DROP,
        ("tests/scenarios/test_loops.py",),
    ),
    Mutant(
        "runtime: a blocking undo is waited for so long and no longer",
        "blocking-undo-waited",
        Without(1),
        ("tests/scenarios/test_helping.py",),
    ),
    Mutant(
        "runtime: a check whose result cannot be stored fails no cancel",
        "check-result-cannot-stored-fails",
        Swap(
            "storable(effect.name, result, happened=True)", 'encode_result(effect.name, result), ""'
        ),
        ("tests/scenarios/test_helping.py",),
    ),
    Mutant(
        "runtime: what nobody approves in time is not done",
        "nobody-approves-in-time",
        ALWAYS,
        ("tests/scenarios/test_helping.py",),
    ),
    Mutant(
        "a cap that is not named stays",
        "cap-not-named-stays",
        Value("event.limits"),
        ("tests/journal/test_limits.py",),
    ),
    Mutant(
        "nobody says that a thread was stopped",
        "nobody-says-thread-stopped",
        NEVER,
        ("tests/journal/test_pause.py",),
    ),
    Mutant(
        "crash: a lost worker is given the time that it may still be at it",
        "lost-worker-given-time-may-still",
        Swap("await _give_time(step, begun.position, left", "return NotDone("),
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "crash: that time is counted from when the worker was found to be lost",
        "time-counted-from-when-worker",
        Swap(
            "host.journal.clock.age(host.history.unknown_at[attempt.position]",
            "(host.journal.clock.now() - host.history.begun(attempt.position).at",
        ),
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "crash: a check proves nothing of a lost worker's thread",
        "check-proves-nothing-of-lost",
        Swap("math.inf", "0.0"),
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "frozen: an effect does not go on after its timeout",
        "effect-does-not-go",
        NEVER,
        ("tests/scenarios/test_frozen.py",),
    ),
    Mutant(
        "frozen: a supervisor ends its tool by itself",
        "supervisor-ends-tool-by-itself",
        Value("False"),
        ("tests/scenarios/test_frozen.py",),
    ),
    Mutant(
        "crash: a check is believed by when it was asked",
        "check-believed-by-when-asked",
        ALWAYS,
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "crash: what a lost worker may still do is counted by the store's clock",
        "lost-worker-may-still-do",
        Swap("stamped", "__import__('time').time()"),
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "doubt: a check proves nothing while what was sent may still arrive",
        "check-proves-nothing",
        Swap(" + tool.settles_within", ""),
        ("tests/scenarios/test_settling.py",),
    ),
    Mutant(
        "undo: what was never done is not waited for",
        "never-done-not-waited",
        Swap("still_to_undo", "undo_wanted"),
        ("tests/scenarios/test_undo_over.py",),
    ),
    Mutant(
        "doubt: nobody is asked any more what has become known",
        "nobody-asked-any-more-what-has",
        Without(1),
        (TOLD + "nor_about_what_is_known_not_to_be_done_which_the_successor_does",),
    ),
    Mutant(
        "kill: a worker whose run was taken away lives",
        "worker-run-taken-away-lives",
        ALWAYS,
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "crash: what a lost worker may still do is not called proven",
        "crash-lost-worker-may-still-do",
        ALWAYS,
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "crash: what a lost worker has told before the start is on record is not started",
        "start-decided-on-what-read",
        Without(0),
        (TOLD + "what_was_told_before_the_successors_start_is_on_record_is_not_begun_again",),
    ),
    Mutant(
        "crash: who is told what came of a step by a lost worker takes it, and tries no more",
        "told-what-came-of-step",
        NEVER,
        (TOLD + "what_was_told_while_the_run_was_paused_is_not_begun_when_it_goes_on",),
    ),
    Mutant(
        "crash: what a lost worker tells after the start is on record is not begun either",
        "stop-before-first-line-prevents",
        Swap("not step.told and ", ""),
        (TOLD + "what_is_told_between_the_start_and_its_first_line_is_not_begun",),
    ),
    Mutant(
        "crash: a successor's failure does not outdo what a lost worker has told",
        "successor-failure-does-not-outdo",
        NEVER,
        (
            TOLD + "a_successor_that_fails_then_makes_no_failure_of_what_was_done",
            TOLD + "a_failure_that_is_just_being_written_down_gives_way_to_what_is_told",
        ),
    ),
    Mutant(
        "crash: nobody is asked whether what a lost worker has told may be done",
        "nobody-asked-whether-what-lost",
        DROP,
        (TOLD + "nobody_is_asked_any_more_whether_it_may_be_done",),
    ),
    Mutant(
        "crash: what a lost worker and its successor have done is one step",
        "lost-worker-and-successor",
        DROP,
        ("tests/view/test_run_book.py", "tests/scenarios/test_told_late.py"),
    ),
    Mutant(
        "crash: a repeat in doubt does not hide that a lost worker has done it",
        "repeat-in-doubt-does-not-hide",
        Without(1),
        ("tests/journal/test_receipt.py", "tests/scenarios/test_told_late.py"),
    ),
    Mutant(
        "crash: an undo that may have come before or after it leaves it in doubt",
        "repeat-in-doubt-does-not-hide",
        Swap("(in_doubt or self._unsettled(other))", "in_doubt"),
        ("tests/journal/test_receipt.py",),
    ),
    Mutant(
        "crash: what was done once is not said to have been done twice",
        "done-once-not-said",
        Value("True"),
        ("tests/journal/test_facts.py",),
    ),
    Mutant(
        "crash: what a lost worker has done is shown as done, whatever came of its repeat",
        "lost-worker-has-done-shown",
        Swap("not self._stands(entry, event)", "event.attempt != entry.attempt"),
        ("tests/view/test_run_book.py",),
    ),
    Mutant(
        "sheets: the step that would repeat an effect is the one that needs a person",
        "step-would-repeat-effect-one-needs",
        Value('""'),
        ("tests/view/test_run_book.py",),
    ),
    Mutant(
        "crash: a driver counts as living until its process tools are dead",
        "driver-counts-as-living",
        Swap(", outlived(lease.lock)", ""),
        ("tests/scenarios/test_lost_worker.py",),
    ),
    Mutant(
        "runtime: a cancel waits for those whom a child that has ended left at work",
        "cancel-waits-for-those-whom-child",
        Swap(
            "unseen += (await _until(host, below, time, ended=True)).children",
            "await _until(host, below, time, ended=True)",
        ),
        ("tests/scenarios/test_children_left.py",),
    ),
    Mutant(
        "runtime: a child begins under the same lock under which its parent is looked at",
        "child-begins-under-same-lock-under",
        Without(1),
        ("tests/scenarios/test_start.py",),
    ),
    Mutant(
        "a watcher that is still reading hears what comes next at once",
        "watcher-still-reading-hears",
        Swap("(self._backlog and self._is_full(records))", "journal in self._behind"),
        ("tests/stores/test_hub.py",),
    ),
    Mutant(
        "crash: a back-off is waited out by whoever takes over",
        "back-off-waited-out-by-takes",
        Value("0.0"),
        ("tests/scenarios/test_timers.py",),
    ),
    Mutant(
        "retry: what a check allows to be tried again waits for its back-off",
        "check-allows-to-tried-again",
        DROP,
        ("tests/scenarios/test_timers.py",),
    ),
    Mutant(
        "clocks: what is waited for here is measured by the steady clock",
        "waited-for-here-measured",
        Swap("moment.at - self.age(moment", "__import__('time').time("),
        ("tests/scenarios/test_clock_steps.py",),
    ),
    Mutant(
        "stops: a coroutine that would never end is left behind",
        "coroutine-would-never-end-left",
        NEVER,
        ("tests/scenarios/test_left_behind.py",),
    ),
    Mutant(
        "stops: a thread that was left behind is said to be at work",
        "thread-left-behind",
        Value("False"),
        ("tests/scenarios/test_left_behind.py", "tests/scenarios/test_drain.py"),
    ),
    Mutant(
        "cancel: a run that never began is over with the acknowledgement",
        "run-never-began",
        ALWAYS,
        ("tests/journal/test_cancel.py",),
    ),
    Mutant(
        "crash: a takeover gives no more tries",
        "takeover-gives-no-more-tries",
        DROP,
        ("tests/scenarios/test_timers.py",),
    ),
    Mutant(
        "abort: a tool that proves that it was ended in time has not failed",
        "tool-proves-ended-in-time-has",
        Swap("_why", "_why and not isinstance(error, NotDone)"),
        ("tests/scenarios/test_drain.py",),
    ),
    Mutant(
        "told late: of several tries under a key one is always told of",
        "several-tries-under-key",
        Without(1),
        (
            "tests/journal/test_receipt.py::test_of_three_tries_none_is_silent_because_each_is_told_of_by_another",
        ),
    ),
    Mutant(
        "told late: nobody has said that another try of it was not done",
        "nobody-has-said-another-try",
        NEVER,
        ("tests/scenarios/test_told_late.py::test_nobody_has_said_that_the_repeat_was_not_done",),
    ),
    Mutant(
        "told late: a run that waits for an approval of it is driven on",
        "run-waits-for-approval-of-driven",
        DROP,
        (
            "tests/scenarios/test_told_late.py::"
            "test_nor_is_a_run_left_to_wait_for_it_that_nobody_drives",
        ),
    ),
    Mutant(
        "guards: a worker that was busy gives a function the time to name them again",
        "worker-busy-gives-function-time",
        Swap("NAMED_PARTS", "1"),
        (
            "tests/scenarios/test_guard_answers.py::"
            "test_a_worker_that_was_busy_gives_its_function_the_time_to_name_its_guard_again",
        ),
    ),
    Mutant(
        "forks: without what it takes over a function is not called",
        "without-what-takes-over-function",
        NEVER,
        ("tests/scenarios/test_fork_orphaned.py",),
    ),
    Mutant(
        "forks: a run that has lost what it took over is not forked",
        "run-has-lost-what-took-over",
        DROP,
        ("tests/scenarios/test_fork_orphaned.py",),
    ),
    Mutant(
        "repeats: what is on record is not done again under another name",
        "on-record-not-done-again",
        Value("None"),
        (TWICE + "one_answer_takes_all_of_it_over",),
    ),
    Mutant(
        "repeats: what is taken over is noted, so that it counts once",
        "taken-over-noted-so-counts",
        Without(1),
        (TWICE + "two_steps_at_once_take_over_one_effect_once",),
    ),
    Mutant(
        "repeats: a fork knows what the run before it did",
        "fork-knows-what-run-before-did",
        Without(1),
        (TWICE + "a_fork_asks_before_it_does_again_what_the_other_run_did",),
    ),
    Mutant(
        "replay: a question on record has to be asked again",
        "question-on-record-has",
        Value("self._doubts"),
        ("tests/scenarios/test_calls_removed.py",),
    ),
    Mutant(
        "approvals: they are bound by a full-length digest",
        "they-bound-by-full-length-digest",
        Value("6"),
        (APPROVALS + "details_that_were_approved_are_not_others_with_the_same_short_digest",),
    ),
    Mutant(
        "approvals: those of earlier releases count for the arguments that they show",
        "those-of-earlier-releases-count",
        Without(2),
        (APPROVALS + "an_approval_of_an_earlier_release_approves_no_other_payment",),
    ),
    Mutant(
        "approvals: what earlier releases have done counts for no other call",
        "earlier-releases-have-done",
        Value("False"),
        (APPROVALS + "a_payment_of_an_earlier_release_does_not_count_for_another_one",),
    ),
    Mutant(
        "stored folds: a damaged one is ignored",
        "damaged-fold-ignored",
        NEVER,
        (FOLDS + "a_fold_with_a_damaged_byte_is_ignored",),
    ),
    Mutant(
        "stored folds: one of other code is ignored",
        "fold-of-other-code-ignored",
        NEVER,
        (FOLDS + "a_fold_of_other_code_is_ignored",),
    ),
    Mutant(
        "stored folds: a history of other code is ignored",
        "history-of-other-code-ignored",
        NEVER,
        (FOLDS + "a_fold_of_other_code_is_ignored",),
    ),
    Mutant(
        "stored folds: what was touched since is packed anew",
        "touched-parts-are-packed-anew",
        Value("True"),
        (FOLDS + "a_fold_and_what_follows_it_tell_what_the_whole_journal_tells",),
    ),
    Mutant(
        "stored folds: what is touched while a run is packed ends that",
        "touched-while-packed",
        ALWAYS,
        (
            FOLDS
            + "a_run_that_goes_on_while_it_is_packed_in_stretches_is_told_as_its_journal_tells_it",
        ),
    ),
    Mutant(
        "stored folds: one that cannot be read is ignored",
        "unreadable-fold-ignored",
        Swap("(*UNREADABLE, KeyError)", "KeyError"),
        (FOLDS + "a_fold_that_cannot_be_read_is_ignored",),
    ),
    Mutant(
        "stored folds: a large result of a repeated read is the later one",
        "repeated-read-later",
        Swap("record.repeated_at or ", ""),
        (FOLDS + "a_read_that_was_repeated_has_its_later_result",),
    ),
    Mutant(
        "stored folds: earlier attempts of a step are unpacked with a new one",
        "earlier-attempts-unpacked",
        Swap("self._by_step.get(step)", "dict.get(self._by_step, step)"),
        (FOLDS + "the_attempts_before_a_fold_are_told_with_those_after_it",),
    ),
    Mutant(
        "stored folds: earlier attempts of a step are there beside one at work",
        "earlier-attempts-beside-work",
        ALWAYS,
        (FOLDS + "the_attempts_before_a_fold_are_told_with_those_after_it",),
    ),
    Mutant(
        "stored folds: one is bound to the event at its position",
        "fold-bound-to-journal",
        Swap("OR event = (", "OR 0 < ("),
        (
            "tests/stores/test_contract_folds.py::test_a_fold_of_which_the_event_has_changed_is_ignored",
        ),
    ),
)
