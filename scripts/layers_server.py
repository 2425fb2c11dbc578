"""The protecting layers of the server and of live text; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Instead, Mutant, Swap, Value, Without

ACCESS, EVENTS = ("tests/server/test_access.py",), ("tests/server/test_events.py",)
BAD_INPUT, LIVE = ("tests/server/test_bad_input.py",), ("tests/scenarios/test_live_text.py",)
HUB, VIEWS = ("tests/stores/test_hub.py",), ("tests/server/test_views.py",)

ATTACKS, AGUI = "tests/attacks/", "tests/server/agui/"
AUDIT = (ATTACKS + "test_audit.py",)

SERVER_MUTANTS = (
    Mutant(
        "server: of a stranger's body that is refused little is read",
        "stranger-body-refused-little",
        NEVER,
        (ATTACKS + "test_bodies.py",),
    ),
    Mutant(
        "a watcher's backlog is bounded in bytes",
        "watcher-backlog-bounded-in-bytes",
        Without(1),
        (ATTACKS + "test_quotas.py",),
    ),
    Mutant(
        "server: a connection that only waits is dropped for a new one",
        "connection-only-waits-dropped",
        DROP,
        (ATTACKS + "test_slow_requests.py",),
    ),
    Mutant(
        "server: a body before login is small",
        "body-before-login-small",
        ALWAYS,
        (ATTACKS + "test_slow_requests.py",),
    ),
    Mutant(
        "server: a page of records has a bounded size",
        "page-of-records-has-bounded",
        NEVER,
        (ATTACKS + "test_quotas.py",),
    ),
    Mutant(
        "server: pages of other sites do not use a mounted AG-UI router",
        "pages-of-other-sites-do",
        DROP,
        (ATTACKS + "test_origins.py",),
    ),
    Mutant(
        "agui: words of a run's end come after all that led to them",
        "words-of-end-after-what-led-to",
        NEVER,
        (AGUI + "test_order.py",),
    ),
    Mutant(
        "agui: words of a run's end that are heard first are told after all that led to them",
        "words-of-end-heard-after-what-led-to",
        Swap("[*records[:place]]", "[]"),
        (AGUI + "test_order.py",),
    ),
    Mutant(
        "agui: one answer that does not fit stops all of them",
        "one-answer-does-not-fit-stops",
        Swap("any", "all"),
        (AGUI + "test_resume.py",),
    ),
    Mutant(
        "agui: a yes with a condition is no approval",
        "yes-with-condition-no-approval",
        NEVER,
        (AGUI + "test_approvals.py",),
    ),
    Mutant(
        "agui: dots are not approved as an argument",
        "dots-not-approved-as-argument",
        NEVER,
        (AGUI + "test_resume.py",),
    ),
    Mutant(
        "agui: a conversation that was cut is not added to",
        "conversation-cut-not-added",
        NEVER,
        (AGUI + "test_history.py",),
    ),
    Mutant(
        "agui: who comes back in time has not left",
        "comes-back-in-time-has",
        Value("True"),
        (AGUI + "test_leaving.py",),
    ),
    Mutant(
        "keys: a message is known by its sender's key only",
        "message-known-by-sender-key-only",
        Swap(
            "key_of(message) not in talk.keys",
            "message.key not in {key for _, _, key in talk.keys}",
        ),
        (ATTACKS + "test_keys.py",),
    ),
    Mutant(
        "kernel: a journal takes a bounded amount of large requests",
        "journal-takes-bounded-amount",
        DROP,
        (ATTACKS + "test_quotas.py",),
    ),
    Mutant(
        "server: a stranger is not let in",
        "stranger-not-let",
        ALWAYS,
        ACCESS,
    ),
    Mutant(
        "server: the host is checked",
        "host-checked",
        DROP,
        ACCESS,
    ),
    Mutant(
        "server: the origin is checked",
        "origin-checked",
        NEVER,
        ACCESS,
    ),
    Mutant(
        "server: no page without a name is our own",
        "no-page-without",
        Swap('scheme not in {"http", "https"} or not name or', 'origin and origin != "null" and'),
        ACCESS,
    ),
    Mutant(
        "server: behind TLS a page that came without it is not our own",
        "behind-tls-page-came-without",
        Instead("return True"),
        ACCESS,
    ),
    Mutant(
        "server: a secret in a query is refused",
        "secret-in-query-refused",
        DROP,
        ACCESS,
    ),
    Mutant(
        "server: a press by cookie needs the custom header",
        "press-by-cookie-needs",
        NEVER,
        ACCESS,
    ),
    Mutant(
        "server: a cookie without its page secret lets nobody in",
        "cookie-without-page-secret-lets",
        Without(1),
        ("tests/attacks/test_login.py::test_the_secrets_of_two_sessions_do_not_go_together",),
    ),
    Mutant(
        "server: a code is good once",
        "code-good-once",
        DROP,
        ACCESS,
    ),
    Mutant(
        "server: behind TLS the cookie goes over TLS alone",
        "behind-tls-cookie-goes-over-tls",
        Without(1),
        ACCESS,
    ),
    Mutant(
        "server: what others reach prints no code into a log",
        "others-reach-prints-no-code",
        Value("True"),
        ("tests/cli/test_serve.py",),
    ),
    Mutant(
        "purge: a folder goes only if this store had its run",
        "folder-goes-only-if-this-store",
        ALWAYS,
        ("tests/cli/test_purge.py",),
    ),
    Mutant(
        "purge: folders go with each batch, also with one that is cut off",
        "folders-go-with-each-batch-also",
        DROP,
        ("tests/cli/test_purge.py",),
    ),
    Mutant(
        "server: of two servers that are given one code, one takes it",
        "two-servers-given-one-code",
        DROP,
        ACCESS,
    ),
    Mutant(
        "server: a key ends when its time is over",
        "key-ends-when-time-over",
        Without(1),
        ACCESS,
    ),
    Mutant(
        "server: keys are kept as digests",
        "keys-kept-as-digests",
        Swap(
            'sha256(secret.encode("utf-8", "surrogatepass")).hexdigest',
            'secret.encode("ascii", "replace").decode',
        ),
        ACCESS,
    ),
    Mutant(
        "server: who is too quick has to wait",
        "too-quick-has-to-wait",
        Swap("1", "-1e9"),
        ACCESS,
    ),
    Mutant(
        "server: a body is measured while it comes",
        "body-measured-while-comes",
        NEVER,
        BAD_INPUT,
    ),
    Mutant(
        "server: a body is JSON and says so",
        "body-json-and-says",
        NEVER,
        BAD_INPUT,
    ),
    Mutant(
        "server: a control leaves a line of audit",
        "control-leaves-line-of-audit",
        ALWAYS,
        ACCESS,
    ),
    Mutant(
        "server: what the door refuses is recorded in the audit",
        "door-refuses-recorded",
        ALWAYS,
        AUDIT,
    ),
    Mutant(
        "server: a flood of refusals is a few records",
        "flood-of-refusals-few-records",
        NEVER,
        AUDIT,
    ),
    Mutant(
        "audit: a verb that appends nothing is recorded",
        "verb-appends-nothing-recorded",
        DROP,
        AUDIT,
    ),
    Mutant(
        "audit: a record is in the transaction of its control",
        "record-in-transaction-of-control",
        NEVER,
        ("tests/stores/test_contract_audit.py",),
    ),
    Mutant(
        "audit: a changed record is found",
        "changed-record-found",
        ALWAYS,
        AUDIT,
    ),
    Mutant(
        "server: a refusal says how the run really is",
        "refusal-says-how-run",
        Value("None"),
        ("tests/server/test_verbs.py",),
    ),
    Mutant(
        "server: who comes back goes on where they were",
        "comes-back-goes-on-where-they",
        Swap("known.get(journal, 0)", "0"),
        EVENTS,
    ),
    Mutant(
        "server: a reader that takes nothing is dropped",
        "reader-takes-nothing-dropped",
        Swap("raise Stalled", "await anyio.sleep_forever()"),
        EVENTS,
    ),
    Mutant(
        "server: a silent stream says that it lives",
        "silent-stream-says-lives",
        DROP,
        EVENTS,
    ),
    Mutant(
        "live text: who comes late gets what was said so far",
        "comes-late-gets-what-said",
        Swap("(*missed, *self._voices.of(journal))", "missed"),
        LIVE,
    ),
    Mutant(
        "live text: what is said while a gap is read is not lost",
        "said-while-gap-read",
        DROP,
        HUB,
    ),
    Mutant(
        "live text: what a record of text cuts off is told once more",
        "record-of-text-cuts-off",
        DROP,
        HUB,
    ),
    Mutant(
        "live text: each attempt speaks from the beginning",
        "each-attempt-speaks-from-beginning",
        ALWAYS,
        HUB,
    ),
    Mutant(
        "live text: no delta overtakes the records before it",
        "no-delta-overtakes-records",
        Value("self._backlog.insert(0, voice)"),
        HUB,
    ),
    Mutant(
        "live text: what may be the beginning of a secret waits",
        "may-beginning-of-secret-waits",
        Value("len(said)"),
        LIVE,
    ),
    Mutant(
        "live text: an attempt that is over is forgotten",
        "attempt-over-forgotten",
        DROP,
        LIVE,
    ),
    Mutant(
        "views: who comes late is told how it stands",
        "comes-late-told-how-stands",
        DROP,
        VIEWS,
    ),
    Mutant(
        "views: when who does the work leaves, the next one does it",
        "when-does-work-leaves-next",
        Swap("async", "if self.version:\n            return\n        async"),
        VIEWS,
    ),
    Mutant(
        "views: what who left had taken and not told is told by the next one",
        "left-had-taken",
        NEVER,
        VIEWS,
    ),
    Mutant(
        "views: a sheet is stale until another one is there",
        "sheet-stale-until-another",
        Instead(
            "self._stale = False\n"
            "self.sheet, self._at = await self._made(), await self._control.store.now()"
        ),
        VIEWS,
    ),
    Mutant(
        "views: a patch leads on from what this reader was told",
        "patch-leads-on-from-what-this",
        Value("[]"),
        VIEWS,
    ),
    Mutant(
        "views: many records make few sheets",
        "many-records-make-few",
        Value("0.0 * took"),
        VIEWS,
    ),
    Mutant(
        "page: only files of the page are given",
        "only-files-of-page-given",
        Swap('_files(WEB).get(f"assets/{name}', 'WEB / "assets" / name.replace("%2f", "/'),
        ("tests/server/test_page.py",),
    ),
    Mutant(
        "agui: a client of version 0 is not sent an outcome that it rejects",
        "client-of-version-0",
        Value("(ending,)"),
        (AGUI + "test_old.py",),
    ),
    Mutant(
        "agui: words of a model stay under their id when its call is done",
        "words-of-model-stay-under-id",
        DROP,
        (AGUI + "test_narrator.py",),
    ),
    Mutant(
        "agui: arguments of a call that are secret are dots",
        "arguments-of-call-secret-dots",
        NEVER,
        (AGUI + "test_calls.py",),
    ),
    Mutant(
        "agui: the state is told while text streams",
        "state-told-while-text-streams",
        NEVER,
        (AGUI + "test_stream.py",),
    ),
)
