"""The protecting layers of the server and of live text; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

SERVER, STORES = "src/midflight/server/", "src/midflight/stores/"
ACCESS, EVENTS = ("tests/server/test_access.py",), ("tests/server/test_events.py",)
BAD_INPUT, LIVE = ("tests/server/test_bad_input.py",), ("tests/scenarios/test_live_text.py",)
HUB, VIEWS = ("tests/stores/test_hub.py",), ("tests/server/test_views.py",)

SERVER_MUTANTS = (
    Mutant(
        "server: a stranger is not let in",
        SERVER + "access.py",
        '        if path in self.public or (is_page(path) and scope["method"] in SAFE):\n',
        "        if True:\n",
        ACCESS,
    ),
    Mutant(
        "server: the host is checked",
        SERVER + "access.py",
        "        self._check_host(headers)\n",
        "",
        ACCESS,
    ),
    Mutant(
        "server: the origin is checked",
        SERVER + "access.py",
        "        if not own and origin not in {*self.origins, self.public_url}:",
        "        if False:",
        ACCESS,
    ),
    Mutant(
        "server: no page without a name is our own",
        SERVER + "access.py",
        'urlsplit(origin).netloc == headers.get("host") and origin',
        'origin == "null" or urlsplit(origin).netloc == headers.get("host") or not origin',
        ACCESS,
    ),
    Mutant(
        "server: a secret in a query is refused",
        SERVER + "access.py",
        '        _check_query(scope["query_string"].decode("latin-1"))\n',
        "",
        ACCESS,
    ),
    Mutant(
        "server: a press by cookie needs the custom header",
        SERVER + "access.py",
        "        if method not in SAFE and CUSTOM_HEADER not in headers:",
        "        if False:",
        ACCESS,
    ),
    Mutant(
        "server: a code is good once",
        SERVER + "keyring.py",
        "            kept.codes.remove(key)\n",
        "",
        ACCESS,
    ),
    Mutant(
        "server: behind TLS the cookie goes over TLS alone",
        SERVER + "access.py",
        ' or self.public_url.startswith("https://")',
        "",
        ACCESS,
    ),
    Mutant(
        "server: what others reach prints no code into a log",
        "src/midflight/cli/serve.py",
        "    return here or sys.stdout.isatty()",
        "    return True",
        ("tests/cli/test_serve.py",),
    ),
    Mutant(
        "server: of two servers that are given one code, one takes it",
        SERVER + "keyring.py",
        "            fcntl.flock(lock, fcntl.LOCK_EX)\n",
        "",
        ACCESS,
    ),
    Mutant(
        "server: a key ends when its time is over",
        SERVER + "keyring.py",
        " and not 0 < key.until < now:",
        ":",
        ACCESS,
    ),
    Mutant(
        "server: keys are kept as digests",
        SERVER + "keyring.py",
        '    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()',
        '    return secret.encode("ascii", "replace").decode()',
        ACCESS,
    ),
    Mutant(
        "server: who is too quick has to wait",
        SERVER + "quotas.py",
        "        if left < 1:",
        "        if left < -1e9:",
        ACCESS,
    ),
    Mutant(
        "server: a body is measured while it comes",
        SERVER + "quotas.py",
        "            if seen > self.quotas.body_bytes:",
        "            if False:",
        BAD_INPUT,
    ),
    Mutant(
        "server: a body is JSON and says so",
        SERVER + "door.py",
        '        if scope["method"] not in SAFE and has_body and kind != "application/json":',
        "        if False:",
        BAD_INPUT,
    ),
    Mutant(
        "server: a control leaves a line of audit",
        SERVER + "door.py",
        '        if scope["method"] in SAFE:\n            return\n',
        "        return\n",
        ACCESS,
    ),
    Mutant(
        "server: a refusal says how the run really is",
        SERVER + "problems.py",
        '            body["state"] = _state(await control.store.load(journal))',
        '            body["state"] = None',
        ("tests/server/test_verbs.py",),
    ),
    Mutant(
        "server: who comes back goes on where they were",
        SERVER + "routes_events.py",
        "known.get(journal, 0)",
        "0",
        EVENTS,
    ),
    Mutant(
        "server: a reader that takes nothing is dropped",
        SERVER + "sse.py",
        "            raise Stalled\n",
        "            await anyio.sleep_forever()\n",
        EVENTS,
    ),
    Mutant(
        "server: a silent stream says that it lives",
        SERVER + "sse.py",
        '                await self._put(send, b": alive\\n\\n")\n',
        "",
        EVENTS,
    ),
    Mutant(
        "live text: who comes late gets what was said so far",
        STORES + "subscription.py",
        "(*missed, *self._voices.of(journal))",
        "missed",
        LIVE,
    ),
    Mutant(
        "live text: what is said while a gap is read is not lost",
        STORES + "subscription.py",
        "            self._missed[voice] = None\n",
        "            pass\n",
        HUB,
    ),
    Mutant(
        "live text: what a record of text cuts off is told once more",
        STORES + "subscription.py",
        "                    self._backlog.insert(0, voice)\n",
        "                    pass\n",
        HUB,
    ),
    Mutant(
        "live text: each attempt speaks from the beginning",
        STORES + "subscription.py",
        "        offset = upto if earlier is voice else 0",
        "        offset = upto",
        HUB,
    ),
    Mutant(
        "live text: no delta overtakes the records before it",
        STORES + "subscription.py",
        "            self._turns.add(voice)\n            self._backlog.append(voice)\n",
        "            self._turns.add(voice)\n            self._backlog.insert(0, voice)\n",
        HUB,
    ),
    Mutant(
        "live text: what may be the beginning of a secret waits",
        "src/midflight/executor/speech.py",
        "        split = len(said) - beginning_of_one(said)",
        "        split = len(said)",
        LIVE,
    ),
    Mutant(
        "live text: an attempt that is over is forgotten",
        "src/midflight/executor/speech.py",
        "            self._step.driver.store.voices.end(self._voice)\n",
        "            pass\n",
        LIVE,
    ),
    Mutant(
        "views: who comes late is told how it stands",
        SERVER + "view_stream.py",
        "        self._news.set()  # a sheet may be there already\n",
        "",
        VIEWS,
    ),
    Mutant(
        "views: when who does the work leaves, the next one does it",
        SERVER + "live.py",
        "        async with self._turn:\n            head",
        "        if self.version:\n            return\n        async with self._turn:\n"
        "            head",
        VIEWS,
    ),
    Mutant(
        "views: what who left had taken and not told is told by the next one",
        SERVER + "live.py",
        '0.0 if self._untold and self._caught_up else float("inf")',
        'float("inf")',
        VIEWS,
    ),
    Mutant(
        "views: a sheet is stale until another one is there",
        SERVER + "live.py",
        "            self.sheet, self._at = await self._made(), await self._control.store.now()\n"
        "            self._stale = False  # not before: we may be ended while it is made\n",
        "            self._stale = False\n"
        "            self.sheet, self._at = await self._made(), await self._control.store.now()\n",
        VIEWS,
    ),
    Mutant(
        "views: a patch leads on from what this reader was told",
        SERVER + "live.py",
        "            changes = patch(sheet, self.sheet)",
        "            changes = []",
        VIEWS,
    ),
    Mutant(
        "views: many records make few sheets",
        SERVER + "live.py",
        "        self._due = anyio.current_time() + max(PACE_S, SHARE * took)",
        "        self._due = 0.0 * took",
        VIEWS,
    ),
    Mutant(
        "page: only files of the page are given",
        SERVER + "page.py",
        '    found = _files(WEB).get(f"assets/{name}")',
        '    found = WEB / "assets" / name.replace("%2f", "/")',
        ("tests/server/test_page.py",),
    ),
)
