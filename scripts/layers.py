"""The protecting layers: where each is taken out by ``mutants.py``, and the test that notices.

A mutant takes out one layer and leaves all others. Where another layer would hide the hole, the
test makes the situation in which this one is alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A layer, the place where it is taken out, and the tests that must notice."""

    layer: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


KERNEL, STORES = "src/midflight/kernel/", "src/midflight/stores/"
EXECUTOR = "src/midflight/executor/"
START = "tests/scenarios/test_start.py::test_"
POSTGRES = "tests/stores/test_postgres.py::test_"
LOCKS = "tests/stores/test_postgres_locks.py::test_"
CHECKS = "tests/stores/test_postgres_checks.py::test_"
DESK = "tests/stores/test_sqlite_desk.py::test_"
WRITER = "tests/stores/test_sqlite_writer.py::test_"
TROUBLE = "tests/stores/test_sqlite_trouble.py::test_"
DRIVERS = "tests/stores/test_contract_drivers.py::test_"
MIGRATIONS = "tests/stores/test_migrations.py::test_"
LEASE = "tests/stores/test_sqlite_lease.py::test_"
REPEATS = "tests/stores/test_contract_repeats.py::test_"

MUTANTS = (
    Mutant(
        "a paused run starts nothing (the table)",
        KERNEL + "machine.py",
        "        PG, *DRIVERS, *FACTS,",
        "        PG, *STARTS, *DRIVERS, *FACTS,",
        ("tests/kernel/test_pause.py",),
    ),
    Mutant(
        "an older epoch decides nothing",
        KERNEL + "machine.py",
        "    if event.epoch != expected:",
        "    if False:",
        ("tests/kernel/test_drivers.py",),
    ),
    Mutant(
        "a request after upto is not consumed",
        KERNEL + "fold.py",
        "if v in verbs and p <= upto]",
        "if v in verbs]",
        ("tests/kernel/test_pause.py",),
    ),
    Mutant(
        "a redirect is delivered up to what the driver has read",
        KERNEL + "machine.py",
        'verb == "redirect" and p <= event.upto for p',
        'verb == "redirect" for p',
        ("tests/kernel/test_redirect.py",),
    ),
    Mutant(
        "no end while something is in flight",
        KERNEL + "machine.py",
        '    return "something is in flight" if s.open or s.undos else None',
        "    return None",
        ("tests/kernel/test_cancel.py",),
    ),
    Mutant(
        "an outcome is taken once",
        KERNEL + "facts.py",
        "            if attempt is None or attempt.outcome not in {None, Outcome.UNKNOWN}:",
        "            if attempt is None:",
        ("tests/kernel/test_facts.py",),
    ),
    Mutant(
        "a living driver keeps its run",
        KERNEL + "facts.py",
        "    if state.driver and not (lease_gone or state.driver == driver):",
        "    if False:",
        ("tests/stores/test_contract_drivers.py",),
    ),
    Mutant(
        "the switch is read by start and resume",
        KERNEL + "decide.py",
        '    if isinstance(request, MOVES) or getattr(request, "resume", False):',
        "    if False:",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "a kill is appended to runs in motion",
        KERNEL + "facts.py",
        "    if state.phase in IN_MOTION:\n        return (msgspec",
        "    if False:\n        return (msgspec",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "a kill revokes the drivers of resting runs",
        KERNEL + "facts.py",
        "    return (e.DriverRevoked(scope=killed.scope),) if state.driver else ()",
        "    return ()",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "positions are compared",
        STORES + "plan.py",
        "        if head != entry.expected:",
        "        if False:",
        ("tests/stores/test_contract_append.py",),
    ),
    Mutant(
        "every store asks the table",
        STORES + "plan.py",
        "            check(state, event)\n",
        "",
        ("tests/stores/test_contract_append.py",),
    ),
    Mutant(
        "rows carry a checksum",
        STORES + "codec.py",
        "    if zlib.crc32(body) != checksum:",
        "    if False:",
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "a gap is noticed",
        STORES + "codec.py",
        "        if position != after:",
        "        if False:",
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "SQLite: a place can be taken once (the key)",
        STORES + "sql/sqlite_001.sql",
        "    PRIMARY KEY (journal, position)      -- the lock: no two appends can take one place\n",
        "    CHECK (position > 0)\n",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: folded states are trusted only while data_version stands",
        STORES + "sqlite_ledger.py",
        "        if state is not None and seen == self._version:",
        "        if state is not None:",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: what failed half-way is folded again",
        STORES + "sqlite_ledger.py",
        "            self._forget(touched)  # half",
        "            pass  # half",
        ("tests/stores/test_contract_append.py", "tests/stores/test_contract_submit.py"),
    ),
    Mutant(
        "SQLite: a repeated decision is recognised",
        STORES + "sqlite_ledger.py",
        "            if all(self._append_at(*place) == (decision.id,) for place in begins):",
        "            if False:",
        ("tests/stores/test_contract_repeats.py",),
    ),
    Mutant(
        "SQLite: a repeated request is recognised",
        STORES + "sqlite_ledger.py",
        '        if begins := self._db.execute(SQL["find_request"], (request.id,)).fetchall():',
        "        if begins := []:",
        ("tests/stores/test_contract_repeats.py",),
    ),
    Mutant(
        "SQLite: an append is synced before it is acknowledged",
        STORES + "sqlite_file.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        ("tests/stores/test_durability.py",),
    ),
    Mutant(
        "SQLite: nudges",
        STORES + "sqlite_nudge.py",
        "        peers = self._others()",
        "        peers: list[str] = []",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: polling, where a nudge is lost",
        STORES + "sqlite.py",
        "        if version != seen:",
        "        if False:",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: watchers are told before the author",
        STORES + "sqlite_writer.py",
        "        self._deliver([job for job in jobs if job.error is None])\n"
        "        for job in jobs:",
        "        self._loop.call_later(\n"
        "            0.01, self._deliver, [job for job in jobs if job.error is None]\n"
        "        )\n        for job in jobs:",
        ("tests/stores/test_contract_watch.py",),
    ),
    Mutant(
        "the kill switch is an operator's",
        KERNEL + "decide.py",
        "    if who.role is not Role.OPERATOR:",
        "    if False:",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "SQLite: a lease is held only under a name that others see",
        STORES + "sqlite_lease.py",
        "                if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):",
        "                if True:",
        (LEASE + "a_driver_whose_file_was_cleared_away_as_it_began_takes_a_new_one",),
    ),
    Mutant(
        "Postgres: a request can be taken once (the index)",
        STORES + "sql/postgres_001.sql",
        "CREATE UNIQUE INDEX events_by_request",
        "CREATE INDEX events_by_request",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a place can be taken once (the key)",
        STORES + "sql/postgres_001.sql",
        "    PRIMARY KEY (journal, position) ",
        "    CHECK (position > 0) ",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: facts and decisions of others reach watchers by NOTIFY",
        STORES + "postgres_news.py",
        "        self._hub.moved(heads)\n",
        "        pass\n",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "SQLite: who gives up at the turnstile has appended nothing",
        STORES + "sqlite_writer.py",
        "            batch = [job for job in jobs if not job.taken]",
        "            batch = jobs",
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "Postgres: a batch compares heads",
        STORES + "sql/postgres_001.sql",
        "        WHERE coalesce(j.head, 0) <> w.expected OR NOT in_time",
        "        WHERE NOT in_time",
        (LOCKS + "a_request_is_not_decided_on_a_run_that_has_changed_elsewhere",),
    ),
    Mutant(
        "Postgres: a batch locks the heads that it compares",
        STORES + "sql/postgres_001.sql",
        "    PERFORM FROM journals WHERE journal = ANY (wanted) ORDER BY journal FOR UPDATE;\n"
        "    at := clock();\n    failed",
        "    at := clock();\n    failed",
        (LOCKS + "a_request_waits_for_one_that_changes_a_run_it_only_looks_at",),
    ),
    Mutant(
        "Postgres: a request locks the heads that it is decided on",
        STORES + "sql/postgres_001.sql",
        "    PERFORM FROM journals WHERE journal = ANY (wanted) ORDER BY journal FOR UPDATE;\n"
        "    at := clock();\n    known",
        "    at := clock();\n    known",
        (LOCKS + "a_request_waits_for_one_that_changes_a_run_it_only_looks_at",),
    ),
    Mutant(
        "Postgres: whoever reads a switch holds it (FOR SHARE)",
        STORES + "sql/postgres_001.sql",
        "WHERE scope = ANY (scopes) ORDER BY scope FOR SHARE;",
        "WHERE scope = ANY (scopes) ORDER BY scope;",
        (LOCKS + "a_kill_waits_for_a_claim_that_has_read_the_switch",),
    ),
    Mutant(
        "Postgres: a switch that nobody has set has a row to lock",
        STORES + "sql/postgres_001.sql",
        "            INSERT INTO switches (scope) SELECT s FROM unnest(scopes) AS s ORDER BY s\n"
        "            ON CONFLICT DO NOTHING;",
        "            EXIT;",
        (LOCKS + "a_kill_waits_for_a_claim_that_has_read_the_switch",),
    ),
    Mutant(
        "Postgres: a kill holds its switch",
        STORES + "sql/postgres_001.sql",
        "    PERFORM FROM switches WHERE scope = wanted_scope FOR UPDATE;\n",
        "",
        (LOCKS + "a_release_waits_for_a_kill_of_its_scope_that_is_under_way",),
    ),
    Mutant(
        "Postgres: a kill locks the runs in its scope",
        STORES + "sql/postgres_001.sql",
        "        ORDER BY journal\n        FOR UPDATE\n    ) AS live",
        "        ORDER BY journal\n    ) AS live",
        (LOCKS + "a_kill_waits_for_an_append_that_is_half_way_and_ends_the_run_after_it",),
    ),
    Mutant(
        "Postgres: whoever judges a lease holds it (FOR SHARE)",
        STORES + "sql/postgres_001.sql",
        "    PERFORM FROM leases WHERE driver = ANY (drivers) ORDER BY driver FOR SHARE;\n",
        "",
        (LOCKS + "a_claim_waits_for_the_old_driver_who_is_renewing_its_lease",),
    ),
    Mutant(
        "Postgres: the clock goes on while a transaction waits",
        STORES + "sql/postgres_001.sql",
        "clock_timestamp()",
        "now()",
        (LOCKS + "a_request_that_had_to_wait_is_decided_at_the_time_at_which_it_could",),
    ),
    Mutant(
        "Postgres: a purge leaves alone what somebody is changing",
        STORES + "sql/postgres_001.sql",
        "            AND updated_at < ended_before\n"
        "        ORDER BY journal LIMIT at_most FOR UPDATE SKIP LOCKED",
        "            AND updated_at < ended_before\n        ORDER BY journal LIMIT at_most",
        (LOCKS + "a_run_that_is_being_recovered_is_not_purged",),
    ),
    Mutant(
        "Postgres: whoever refers to a value holds it",
        STORES + "sql/postgres_001.sql",
        "ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash;",
        "ON CONFLICT (hash) DO NOTHING;",
        (LOCKS + "a_value_that_is_being_referred_to_anew_is_not_purged",),
    ),
    Mutant(
        "Postgres: a purge locks values before it looks who refers to them",
        STORES + "sql/postgres_001.sql",
        "    PERFORM FROM blobs WHERE hash = ANY (hashes) ORDER BY hash FOR UPDATE;\n",
        "",
        (LOCKS + "a_value_that_is_being_referred_to_anew_is_not_purged",),
    ),
    Mutant(
        "Postgres: a batch knows the ids of requests",
        STORES + "sql/postgres_001.sql",
        "        WHERE EXISTS (SELECT FROM events AS e WHERE e.append_id = r.id AND e.requested)",
        "        WHERE false",
        (REPEATS + "a_repeated_submit_that_would_now_be_answered_elsewhere_stays_where_it_was",),
    ),
    Mutant(
        "Postgres: a lone append knows the ids of requests",
        STORES + "sql/postgres.sql",
        "        AND NOT ($21 AND EXISTS (SELECT FROM events WHERE append_id = $20 AND requested))",
        "        AND NOT ($21 AND $20 = '')",
        (REPEATS + "a_repeated_submit_that_now_needs_fewer_journals_stays_where_it_was",),
    ),
    Mutant(
        "Postgres: a request under lock knows its id",
        STORES + "sql/postgres_001.sql",
        "    known := EXISTS (SELECT FROM events WHERE append_id = request_id AND requested);",
        "    known := false;",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a kill knows its id",
        STORES + "sql/postgres_001.sql",
        "    known := EXISTS (SELECT FROM events WHERE append_id = kill_id AND requested);",
        "    known := false;",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a lone append compares heads",
        STORES + "sql/postgres.sql",
        "    WHERE journal = $1 AND head = $2 AND abs",
        "    WHERE journal = $1 AND $2::bigint > 0 AND abs",
        (CHECKS + "where_a_backup_was_put_back_a_driver_that_is_ahead_leaves_no_hole",),
    ),
    Mutant(
        "Postgres: a lone append is stamped near the server's time",
        STORES + "sql/postgres.sql",
        " AND abs(clock() - $15) < 5",
        " AND $15::double precision > 0",
        (CHECKS + "after_a_clock_has_jumped_events_are_stamped_with_the_servers_time",),
    ),
    Mutant(
        "Postgres: a batch is stamped near the server's time",
        STORES + "sql/postgres_001.sql",
        " OR NOT in_time",
        "",
        (CHECKS + "after_a_clock_has_jumped_events_are_stamped_with_the_servers_time",),
    ),
    Mutant(
        "Postgres: our clock is moved to the server's",
        STORES + "postgres_clock.py",
        "        return self._local() + self._ahead",
        "        return self._local()",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a clock that was refused is set anew",
        STORES + "postgres_clock.py",
        '        """Take the next answer whatever it says: the clocks have moved apart."""\n'
        '        self._measured = float("-inf")',
        "        return",
        (CHECKS + "after_a_clock_has_jumped_events_are_stamped_with_the_servers_time",),
    ),
    Mutant(
        "Postgres: a claim judges leases by the server's clock",
        STORES + "sql/postgres_001.sql",
        "WHERE driver = ANY (drivers) AND expires_at > clock());",
        "WHERE driver = ANY (drivers));",
        (CHECKS + "a_lease_that_has_run_out_is_over_for_everybody",),
    ),
    Mutant(
        "Postgres: a sweep judges leases by the server's clock",
        STORES + "sql/postgres.sql",
        "WHERE l.driver = w.driver AND l.expires_at > (SELECT clock())",
        "WHERE l.driver = w.driver",
        (CHECKS + "a_lease_that_has_run_out_is_over_for_everybody",),
    ),
    Mutant(
        "Postgres: whoever asks is told of leases by the server's clock",
        STORES + "sql/postgres.sql",
        "WHERE driver = $1 AND expires_at > clock())",
        "WHERE driver = $1)",
        (CHECKS + "a_lease_that_has_run_out_is_over_for_everybody",),
    ),
    Mutant(
        "Postgres: the name of a living driver is its own",
        STORES + "sql/postgres.sql",
        "WHERE l.holder = excluded.holder OR l.expires_at <= clock()",
        "WHERE true",
        (DRIVERS + "nobody_takes_the_name_of_a_driver_that_lives",),
    ),
    Mutant(
        "Postgres: a lease is given back by its holder only",
        STORES + "sql/postgres.sql",
        "DELETE FROM leases WHERE driver = $1 AND holder = $2",
        "DELETE FROM leases WHERE driver = $1 AND $2::text <> ''",
        (CHECKS + "who_has_lost_its_lease_to_a_namesake_does_not_take_it_away_again",),
    ),
    Mutant(
        "Postgres: a lease counts from when its renewal was sent",
        STORES + "postgres_lease.py",
        "        self._renewed = sent",
        "        self._renewed = steady()",
        (CHECKS + "a_lease_is_held_from_when_its_renewal_was_sent_and_not_from_the_answer",),
    ),
    Mutant(
        "Postgres: who cannot renew its lease stops by itself",
        STORES + "postgres_lease.py",
        "        return steady() - self._renewed < self._ttl * (1 - MARGIN)",
        "        return self._renewed > 0",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a commit waits for the disk",
        STORES + "sql/postgres.sql",
        "        THEN set_config('synchronous_commit', 'on', false)",
        "        THEN 'off'",
        (CHECKS + "whatever_the_servers_defaults_a_commit_is_on_disk_and_no_lock_is_for_ever",),
    ),
    Mutant(
        "Postgres: every statement sees what was committed before it",
        STORES + "postgres_server.py",
        '    "default_transaction_isolation": "read committed",',
        "",
        (CHECKS + "whatever_the_servers_defaults_a_commit_is_on_disk_and_no_lock_is_for_ever",),
    ),
    Mutant(
        "Postgres: no lock is waited for without end",
        STORES + "postgres_server.py",
        '    "lock_timeout": "3s",',
        "",
        (CHECKS + "a_lock_that_is_never_released_does_not_hold_up_other_runs",),
    ),
    Mutant(
        "Postgres: a process that froze loses its locks",
        STORES + "postgres_server.py",
        '    "idle_in_transaction_session_timeout": "5s",',
        "",
        (CHECKS + "a_process_that_froze_with_locks_loses_them",),
    ),
    Mutant(
        "Postgres: what the server refuses fails alone in its batch",
        STORES + "postgres_writer.py",
        "            if len(batch) > 1 and not isinstance(error, _WHOLE):",
        "            if False:",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: tasks of a process take turns at a journal",
        STORES + "postgres_states.py",
        "        if turn.waits_for:\n            await self._wait(turn)\n",
        "",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a state whose append failed is folded again",
        STORES + "postgres_writer.py",
        "            self._states.forget(job.turn.journals)",
        "            pass",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: polling, where a NOTIFY is lost",
        STORES + "postgres_news.py",
        '            self._hub.moved({row["journal"]: row["head"] for row in rows})',
        "            del rows",
        (
            "tests/stores/test_postgres_lost.py::test_what_a_process_wrote_and_could_not_tell_is_found_by_looking",
        ),
    ),
    Mutant(
        "Postgres: whoever is alone hears when it is not any more",
        STORES + "postgres_news.py",
        "        await self._send(connection, {})  # whoever",
        "        # whoever",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "Postgres: a newer layout is left alone",
        STORES + "postgres_server.py",
        "        if layout > len(MIGRATIONS):",
        "        if False:",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: those who open a new store take turns",
        STORES + "postgres_server.py",
        '        await connection.execute(SQL["lock_layout"], self.channel, timeout=MIGRATE_S)\n',
        "",
        (POSTGRES + "whoever_opens_a_new_store_waits_for_another_who_is_creating_it",),
    ),
    Mutant(
        "SQLite: a request can be taken once (the index)",
        STORES + "sql/sqlite_001.sql",
        "CREATE UNIQUE INDEX events_by_request",
        "CREATE INDEX events_by_request",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: the loop and the thread are not at the desk together",
        STORES + "sqlite_writer.py",
        "            with self._desk:\n",
        "            with suppress():\n",
        (DESK + "the_loop_does_not_write_while_the_thread_is_at_the_desk",),
    ),
    Mutant(
        "SQLite: a lone job does not overtake",
        STORES + "sqlite_writer.py",
        "        alone = len(jobs) == 1 and len(self._waiting) == 1",
        "        alone = len(jobs) == 1",
        (DESK + "a_lone_job_is_not_written_before_an_earlier_one_was_delivered",),
    ),
    Mutant(
        "SQLite: a job that breaks its batch fails alone",
        STORES + "sqlite_writer.py",
        "        if done or self._busy or len(batch) < 2:\n            return\n",
        "        return\n",
        (DESK + "a_job_that_breaks_its_batch_fails_alone",),
    ),
    Mutant(
        "SQLite: the loop writes in its turn only (enter_at_once)",
        STORES + "sqlite_writer.py",
        "            if not light or not self._enter_at_once():",
        "            if not light:",
        (WRITER + "while_another_process_is_before_us_the_thread_waits_for_our_turn",),
    ),
    Mutant(
        "SQLite: one at a time (the turnstile's gate)",
        STORES + "turnstile.py",
        "            fcntl.flock(self._gate, how)",
        "            pass",
        (WRITER + "while_another_process_is_before_us_the_thread_waits_for_our_turn",),
    ),
    Mutant(
        "SQLite: nobody overtakes another who waits (the turnstile's door)",
        STORES + "turnstile.py",
        "        fcntl.flock(self._door, how)",
        "        pass",
        (WRITER + "while_another_process_is_before_us_the_thread_waits_for_our_turn",),
    ),
    Mutant(
        "SQLite: nobody waits at the turnstile without end",
        STORES + "sqlite_writer.py",
        "        self._give_up_on_old_jobs()",
        "        pass",
        (TROUBLE + "a_caller_that_gives_up_at_the_turnstile_has_truly_appended_nothing",),
    ),
    Mutant(
        "SQLite: a file that is locked for a moment is waited for",
        STORES + "sqlite_writer.py",
        "        deadline = time.monotonic() + self._busy_s",
        "        deadline = time.monotonic()",
        (TROUBLE + "a_program_that_locks_the_file_for_a_moment_is_waited_for",),
    ),
    Mutant(
        "SQLite: the file is its owner's alone",
        STORES + "sqlite_file.py",
        "os.O_CLOEXEC, 0o600))",
        "os.O_CLOEXEC, 0o644))",
        (TROUBLE + "nobody_else_on_the_machine_may_read_the_store",),
    ),
    Mutant(
        "SQLite: the folder beside it is its owner's alone",
        STORES + "sqlite.py",
        "beside.mkdir(mode=0o700",
        "beside.mkdir(mode=0o755",
        (TROUBLE + "nobody_else_on_the_machine_may_read_the_store",),
    ),
    Mutant(
        "SQLite: what only reads cannot write",
        STORES + "sqlite_file.py",
        '        db.execute("PRAGMA query_only = ON")',
        "        pass",
        (TROUBLE + "what_only_reads_cannot_write",),
    ),
    Mutant(
        "SQLite: another program's file is left alone",
        STORES + "sqlite_file.py",
        "    if tables and owner != APPLICATION_ID:",
        "    if False:",
        (TROUBLE + "another_programs_database_is_left_alone",),
    ),
    Mutant(
        "SQLite: a newer layout is left alone",
        STORES + "sqlite_file.py",
        "    if _layout(db) > len(MIGRATIONS):",
        "    if False:",
        (TROUBLE + "a_newer_layout_asks_for_an_upgrade",),
    ),
    Mutant(
        "SQLite: a kill that fails half-way is taken back",
        STORES + "sqlite_ledger.py",
        '            self._db.execute("ROLLBACK TO kill")\n',
        "",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "SQLite: a lease is a lock",
        STORES + "sqlite_lease.py",
        "                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "                if path.exists()",
        "                if path.exists()",
        (DRIVERS + "nobody_takes_the_name_of_a_driver_that_lives",),
    ),
    Mutant(
        "SQLite: the file of a living driver is not cleared away",
        STORES + "sqlite_lease.py",
        "                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "                    if os.path",
        "                    if os.path",
        (LEASE + "the_file_of_a_living_driver_is_not_cleared_away",),
    ),
    Mutant(
        "SQLite: letters that are owed do not pile up",
        STORES + "sqlite_nudge.py",
        "            self._owed = None\n",
        "",
        ("tests/stores/test_sqlite_nudge.py",),
    ),
    Mutant(
        "SQLite: what did not fit into a full box is owed",
        STORES + "sqlite_nudge.py",
        "                delivered = False  # its box",
        "                pass  # its box",
        ("tests/stores/test_sqlite_nudge.py",),
    ),
    Mutant(
        "a driver's name is one in every store",
        KERNEL + "facts.py",
        "    if not is_driver_name(driver):",
        "    if False:",
        (DRIVERS + "a_name_that_cannot_be_a_drivers_is_refused_before_it_is_in_a_journal",),
    ),
    Mutant(
        "SQLite: a name that cannot be a driver's leads nowhere",
        STORES + "sqlite_lease.py",
        "        if not is_driver_name(driver):",
        "        if False:",
        ("tests/stores/test_sqlite_lease.py",),
    ),
    Mutant(
        "SQLite: a migration is one transaction",
        STORES + "sqlite_file.py",
        "            db.execute(statement)\n",
        "            db.execute(statement)\n"
        '            db.execute("COMMIT")\n            db.execute("BEGIN IMMEDIATE")\n',
        (MIGRATIONS + "who_is_killed_in_the_middle_leaves_sqlites_file_as_it_was",),
    ),
    Mutant(
        "Postgres: a migration is one transaction",
        STORES + "postgres_server.py",
        "        async with connection.transaction():  # whoever dies",
        "        if True:  # whoever dies",
        (MIGRATIONS + "who_dies_in_the_middle_leaves_postgres_tables_as_they_were",),
    ),
    Mutant(
        "Postgres: a server that says nothing is taken for lost",
        STORES + "postgres_links.py",
        "        if now > self._overdue:",
        "        if False:",
        ("tests/stores/test_postgres_lost.py::test_a_server_that_falls_silent_is_taken_for_lost",),
    ),
    Mutant(
        "Postgres: what was lost on its way is sent again",
        STORES + "postgres_links.py",
        "            if anyio.current_time() + pause > deadline:",
        "            if True:",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "CI: a test that was not run has not passed",
        "scripts/test.py",
        '    return not left_out or os.environ.get("CI") != "true"',
        "    return True",
        ("tests/test_left_out.py",),
    ),
    Mutant(
        "Postgres: a purge leaves alone the thread in which a run begins",
        STORES + "sql/postgres_001.sql",
        "AND r.kind = 'run')\n        ORDER BY journal LIMIT at_most FOR UPDATE SKIP LOCKED",
        "AND r.kind = 'run')\n        ORDER BY journal LIMIT at_most",
        (LOCKS + "a_thread_in_which_a_run_is_being_started_is_not_purged",),
    ),
    Mutant(
        "Postgres: a purge looks once more, under lock, whether a run began in a thread",
        STORES + "sql/postgres_001.sql",
        "        WHERE NOT EXISTS (SELECT FROM journals AS r WHERE r.thread = t AND",
        "        WHERE NOT EXISTS (SELECT FROM journals AS r WHERE false AND",
        (LOCKS + "a_thread_in_which_a_run_began_while_the_purge_was_looking_is_not_purged",),
    ),
    Mutant(
        "SQLite: a job is taken or given up, and never both",
        STORES + "sqlite_writer.py",
        "        with self._taking:\n            batch",
        "        with suppress():\n            batch",
        (DESK + "a_job_is_taken_or_given_up_and_never_both",),
    ),
    Mutant(
        "Postgres: a statement whose client died is ended",
        STORES + "sql/postgres.sql",
        "        THEN set_config('client_connection_check_interval', '500ms', false)",
        "        THEN 'never'",
        (CHECKS + "a_process_that_died_while_it_waited_gives_its_locks_back_soon",),
    ),
    Mutant(
        "SQLite: who clears away looks whether it is still that file",
        STORES + "sqlite_lease.py",
        "                    if os.path.samestat(os.fstat(handle), path.stat()):",
        "                    if True:",
        (
            LEASE
            + "who_clears_away_a_dead_drivers_file_leaves_that_of_a_namesake_who_has_just_begun",
        ),
    ),
    Mutant(
        "executor: a stop before the first line prevents it",
        EXECUTOR + "attempts.py",
        "    if not driver.may_start(step.course):  # no await",
        "    if False:  # no await",
        (START + "a_cancel_between_the_record_of_a_start_and_its_first_line_prevents_it",),
    ),
    Mutant(
        "executor: a start is decided on what was read last",
        EXECUTOR + "attempts.py",
        "    if not step.driver.may_start(step.course):\n        return []\n",
        "",
        (START + "a_pause_just_before_a_start_is_written_lets_it_begin_after_the_resume",),
    ),
    Mutant(
        "executor: who is not sure of its lease starts nothing",
        EXECUTOR + "drive.py",
        "            and self.lease.held\n",
        "",
        (START + "a_driver_that_is_not_sure_of_its_lease_starts_nothing_until_it_is",),
    ),
    Mutant(
        "executor: a request that is not consumed yet holds starts back",
        EXECUTOR + "drive.py",
        "            and not state.pending\n",
        "",
        ("tests/scenarios/test_steer.py",),
    ),
)
