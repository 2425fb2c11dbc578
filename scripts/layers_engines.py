"""The protecting layers of engines and of many machines; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

ENGINES, STORES = "src/midflight/engines/", "src/midflight/stores/"
CONTRACT = "tests/engines/test_contract.py::test_"
ECHO = "tests/stores/test_postgres_echo.py::test_"

ENGINE_MUTANTS = (
    Mutant(
        "engines: what nobody was told of is found by the sweep",
        ENGINES + "sweep.py",
        "                await self._ensure(row.journal)\n",
        "                pass\n",
        (CONTRACT + "who_dies_between_append_and_ensure_leaves_it_to_the_sweep",),
    ),
    Mutant(
        "engines: a run that is driven is not driven once more",
        "src/midflight/engines/driver_pool.py",
        "        if run not in self._driving:\n",
        "        if True:\n",
        (CONTRACT + "asked_for_many_times_at_once_it_has_one_driver",),
    ),
    Mutant(
        "engines: what needs no driver is not claimed",
        "src/midflight/engines/driver_pool.py",
        "            if not (state.wants_driver or due or Cause.DRAIN in state.holds):\n",
        "            if not state.alive:\n",
        (CONTRACT + "asking_for_what_needs_no_driver_does_nothing",),
    ),
    Mutant(
        "engines: what a lost worker tells late is not waited for",
        "src/midflight/runtime/replay/history.py",
        "            self.unclaimed.discard(step)  # told late:",
        "            pass  # told late:",
        (
            "tests/scenarios/test_lost_worker.py::"
            "test_what_it_tells_late_is_not_waited_for_by_a_function_on_its_way_there",
        ),
    ),
    Mutant(
        "runtime: how old a key is goes by the store's clock",
        "src/midflight/runtime/steps/step_recovery.py",
        "    recent = step.host.journal.clock.now() - first.at",
        "    recent = step.host.clock() - first.at",
        (
            "tests/scenarios/test_replay.py::"
            "test_how_old_a_key_is_goes_by_the_stores_clock_whatever_the_workers_says",
        ),
    ),
    Mutant(
        "engines: what a leaving worker cuts short is on record",
        "src/midflight/engines/driver_pool.py",
        "                driver.cut_short()\n",
        "                pass\n",
        (
            "tests/scenarios/test_drain.py::"
            "test_what_does_not_end_in_time_is_cut_short_on_record_and_asked_about",
        ),
    ),
    Mutant(
        "Postgres workers: one that is not sure of its lease closes its door",
        "src/midflight/engines/restate_worker.py",
        "            self.unsure.set()\n",
        "            pass\n",
        (
            "tests/engines/test_outages.py::"
            "test_a_worker_cut_off_in_a_step_begins_nothing_after_its_lease_and_is_followed",
        ),
    ),
    Mutant(
        "Postgres workers: one that Restate does not know tells it again",
        "src/midflight/engines/restate_placement.py",
        "                self.unknown.set()\n",
        "                pass\n",
        (
            "tests/engines/test_outages.py::"
            "test_a_restate_that_has_forgotten_everything_is_told_again",
        ),
    ),
    Mutant(
        "Postgres workers: one at an address where others were has Restate look anew",
        "src/midflight/engines/restate_placement.py",
        "    if service not in found:\n",
        "    if not found:\n",
        (
            "tests/engines/test_known.py::"
            "test_at_an_address_where_others_used_to_be_runs_are_driven_all_the_same",
        ),
    ),
    Mutant(
        "Postgres workers: one whose code is not called any more says so",
        "src/midflight/engines/restate_placement.py",
        '        if where.rstrip("/") != uri.rstrip("/"):\n',
        "        if not where:\n",
        (
            "tests/engines/test_known.py::"
            "test_after_a_rollback_the_old_workers_say_that_calls_go_to_the_newer_ones",
        ),
    ),
    Mutant(
        "Postgres workers: whoever says yes to everything is no Restate",
        "src/midflight/engines/restate_placement.py",
        "            msgspec.json.decode(answer.content, type=_Taken)  # others say yes to all\n",
        "",
        ("tests/engines/test_known.py::test_an_ingress_that_is_no_restate_is_not_taken_for_one",),
    ),
    Mutant(
        "engines: what an operator has stopped is not asked for",
        ENGINES + "sweep.py",
        "    return not held and stopped.isdisjoint(scopes(row.agent, row.thread))\n",
        "    return not held\n",
        (
            "tests/engines/test_sweep.py::"
            "test_for_what_an_operator_has_stopped_nobody_is_asked_until_its_release",
        ),
    ),
    Mutant(
        "engines: a run for which nobody comes is told of",
        ENGINES + "sweep.py",
        "            alone.add(row.agent)\n",
        "            continue\n",
        (
            "tests/engines/test_sweep.py::"
            "test_runs_for_which_nobody_comes_are_told_of_once_for_each_agent",
        ),
    ),
    Mutant(
        "engines: an undo in the dark proves nothing",
        "src/midflight/journal/fold.py",
        "        effect.undone, effect.undo_why = None, WORKER_LOST\n",
        "        pass\n",
        ("tests/kernel/test_receipt.py::test_what_happened_late_may_have_happened_after_its_undo",),
    ),
    Mutant(
        "Postgres workers: SIGTERM is ours and not the SDK's",
        "src/midflight/engines/restate_worker.py",
        "    thread.start()\n    thread.join()\n",
        "    assert thread\n",
        (
            "tests/engines/test_lost.py::"
            "test_a_worker_that_is_told_to_leave_hands_its_runs_over_and_ends",
        ),
    ),
    Mutant(
        "Postgres echo: words go out only while somebody listens elsewhere",
        STORES + "postgres/echo.py",
        "        if voice.journal in self._wanted and not self._is_far(voice):\n",
        "        if not self._is_far(voice):\n            self._wanted[voice.journal] = 1e18\n",
        (ECHO + "nothing_is_passed_on_while_nobody_listens_elsewhere",),
    ),
    Mutant(
        "Postgres echo: who stops listening is forgotten",
        STORES + "postgres/echo.py",
        "for journal, at in self._wanted.items() if at > now}",
        "for journal, at in self._wanted.items()}",
        (ECHO + "nothing_more_is_passed_on_when_nobody_listens_any_more",),
    ),
    Mutant(
        "Postgres echo: a lost piece is asked for again",
        STORES + "postgres/echo.py",
        "            self.listened(words.journal)  # a piece was lost: have all of it again\n",
        "",
        (ECHO + "a_lost_piece_is_asked_for_again",),
    ),
    Mutant(
        "engines: a closed terminal that says so twice ends nothing at once",
        "src/midflight/engines/local_engine.py",
        "                again = _ignore if number is signal.SIGHUP else signal.SIG_DFL",
        "                again = signal.SIG_DFL",
        (
            "tests/scenarios/test_drain.py::"
            "test_a_terminal_that_closes_may_say_so_several_times_and_hurries_nobody",
        ),
    ),
    Mutant(
        "engines: whoever drives is told of runs that others have begun",
        STORES + "sqlite/sqlite_news.py",
        "        if wanting:",
        "        if False:",
        ("tests/engines/test_told.py",),
    ),
    Mutant(
        "engines: a block is counted from between the last answer and the question",
        ENGINES + "watchdog.py",
        "            self._since = (self._answered + time.monotonic()) / 2",
        "            self._since = time.monotonic()",
        (
            "tests/engines/test_watchdog.py::"
            "test_the_time_that_it_tells_is_right_by_half_of_the_interval_at_which_it_looks",
        ),
    ),
    Mutant(
        "engines: a process that was stopped blames no tool",
        ENGINES + "watchdog.py",
        "            if not overslept or",
        "            if True or",
        (
            "tests/engines/test_watchdog.py::"
            "test_a_process_that_was_stopped_and_goes_on_blames_nobody",
        ),
    ),
    Mutant(
        "Postgres echo: a voice that has ended is forgotten elsewhere",
        STORES + "postgres/echo.py",
        "            self._post.append(Words(self._name, voice=spoken.name, over=True))\n",
        "",
        (ECHO + "a_voice_that_has_ended_is_not_told_to_newcomers",),
    ),
)
