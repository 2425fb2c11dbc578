"""The protecting layers of the tools for models; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Mutant, Swap, Value, Without

FILES = ("tests/tools/test_files.py",)
HTTP = ("tests/tools/test_http.py",)
SQL = ("tests/tools/test_sql.py",)
MCP = "tests/tools/test_mcp.py::test_"
STORIES = "tests/scenarios/test_agent_tools.py::test_"

SCHEMAS = ("tests/attacks/test_schemas.py",)
SECRETS = ("tests/attacks/test_secrets.py",)

TOOL_MUTANTS = (
    Mutant(
        "schemas: parts with names of their own are refused",
        "parts-with-names-of-own-refused",
        NEVER,
        SCHEMAS,
    ),
    Mutant(
        "schemas: the work is counted",
        "work-counted",
        DROP,
        SCHEMAS,
    ),
    Mutant(
        "secrets: what people edit refers to none",
        "people-edit-refers-to-none",
        DROP,
        SECRETS,
    ),
    Mutant(
        "secrets: log records are cleaned",
        "log-records-cleaned",
        DROP,
        SECRETS,
    ),
    Mutant(
        "files: no link is followed on the way",
        "no-link-followed-on-way",
        Swap(" | os.O_NOFOLLOW", ""),
        FILES,
    ),
    Mutant(
        "files: a file that is a link is not read",
        "file-link-not-read",
        Swap(" | os.O_NOFOLLOW", ""),
        FILES,
    ),
    Mutant(
        "files: no path leads up",
        "no-path-leads",
        NEVER,
        FILES,
    ),
    Mutant(
        "files: nobody waits for a pipe",
        "file-link-not-read",
        Swap(" | os.O_NONBLOCK", ""),
        FILES,
    ),
    Mutant(
        "files: what undo needs is out of reach",
        "undo-needs-out-of-reach",
        NEVER,
        FILES,
    ),
    Mutant(
        "files: written only over the version that was read",
        "written-only-over-version-read",
        NEVER,
        FILES,
    ),
    Mutant(
        "files: one at a time among threads",
        "one-at-time-among-threads",
        DROP,
        FILES,
    ),
    Mutant(
        "files: an undo leaves alone what others have changed",
        "undo-leaves-alone-what-others-have",
        NEVER,
        FILES,
    ),
    Mutant(
        "files: what is put back is what was there",
        "what-put-back",
        Without(1),
        FILES,
    ),
    Mutant(
        "files: a check that cannot look says nothing",
        "check-cannot-look-says-nothing",
        NEVER,
        FILES,
    ),
    Mutant(
        "files: a crash is looked into before a person is asked",
        "crash-looked-into-before-person",
        Without("check"),
        (STORIES + "a_crash_at_any_append_writes_each_file_once_and_asks_nobody",),
    ),
    Mutant(
        "tools: two workspaces do not share a name",
        "two-workspaces-do-not-share-name",
        Value("name_of(function), None"),
        FILES,
    ),
    Mutant(
        "http: an address is judged after resolving",
        "address-judged",
        Value("resolved"),
        HTTP,
    ),
    Mutant(
        "http: the connection goes to the address that was judged",
        "connection-goes",
        Swap("last", "host"),
        HTTP,
    ),
    Mutant(
        "http: secrets stay with their site",
        "secrets-stay-with-site",
        NEVER,
        HTTP,
    ),
    Mutant(
        "http: IPv6 that holds IPv4 is another way to the same door",
        "ipv6-holds-ipv4-another-way",
        Swap("(found not in GLOBAL_V6 or found.scope_id)", "found.scope_id"),
        HTTP,
    ),
    Mutant(
        "http: no header bends the request",
        "no-header-bends-request",
        Without(0),
        HTTP,
    ),
    Mutant(
        "sql: SQLite is asked by an authorizer",
        "sqlite-asked-by-authorizer",
        DROP,
        SQL,
    ),
    Mutant(
        "sql: a query to SQLite sorts in bounded memory, and not on the disk",
        "query-to-sqlite-sorts-in-bounded",
        Swap("MEMORY", "FILE"),
        ("tests/attacks/test_sqlite_tool.py",),
    ),
    Mutant(
        "sql: a query to SQLite is ended when its time is up",
        "query-to-sqlite-ended-when-time",
        Without("timeout_s"),
        ("tests/attacks/test_sqlite_tool.py",),
    ),
    Mutant(
        "Postgres takes a SELECT of a model and nothing else",
        "postgres-takes-select-of-model",
        Swap('f"SELECT * FROM (\\n{inner}\\n) AS asked"', "inner"),
        SQL,
    ),
    Mutant(
        "Postgres is not asked by a model as its superuser",
        "postgres-not-asked-by-model",
        NEVER,
        SQL,
    ),
    Mutant(
        "mcp: what is not listed is approved",
        "not-listed-approved",
        ALWAYS,
        (MCP + "what_a_tool_does_is_what_we_have_listed_and_not_what_it_says",),
    ),
    Mutant(
        "mcp: a tool that has changed is not called",
        "tool-has-changed-not-called",
        NEVER,
        (MCP + "a_tool_that_has_changed_since_it_was_listed_is_not_called",),
    ),
    Mutant(
        "mcp: a server runs under the supervisor",
        "server-runs-under-supervisor",
        Value("command"),
        (MCP + "kill_9_of_us_ends_the_server_and_all_that_it_has_started",),
    ),
    Mutant(
        "mcp: SIGTERM ends the tree and not only its head",
        "sigterm-ends-tree-and-not-only",
        DROP,
        (MCP + "closing_ends_the_server_and_all_that_it_has_started",),
    ),
    Mutant(
        "specs: a server's expressions keep nobody busy",
        "server-expressions-keep",
        Swap("patterns)", "True)"),
        ("tests/tools/test_specs.py",),
    ),
)
