"""The protecting layers of the tools for models; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

TOOLS = "src/midflight/tools/"
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
        "src/midflight/schemas/schema_rules.py",
        "    if key in NAMING:\n",
        "    if False:\n",
        SCHEMAS,
    ),
    Mutant(
        "schemas: the work is counted",
        "src/midflight/schemas/evaluation.py",
        "    left[0] -= work\n",
        "",
        SCHEMAS,
    ),
    Mutant(
        "secrets: what people edit refers to none",
        "src/midflight/runtime/steps/preconditions.py",
        "        plain = edited_beside(plain, given)\n",
        "        pass\n",
        SECRETS,
    ),
    Mutant(
        "secrets: log records are cleaned",
        TOOLS + "secret.py",
        "                record.exc_info, record.exc_text = None, clean\n",
        "                pass\n",
        SECRETS,
    ),
    Mutant(
        "files: no link is followed on the way",
        "src/midflight/tools/folder.py",
        "_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW",
        "_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY",
        FILES,
    ),
    Mutant(
        "files: a file that is a link is not read",
        "src/midflight/tools/folder.py",
        "_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW",
        "_FILE: Final = os.O_RDONLY",
        FILES,
    ),
    Mutant(
        "files: no path leads up",
        "src/midflight/tools/folder.py",
        'if ".." in names:',
        "if False:",
        FILES,
    ),
    Mutant(
        "files: nobody waits for a pipe",
        "src/midflight/tools/folder.py",
        " | os.O_NONBLOCK",
        "",
        FILES,
    ),
    Mutant(
        "files: what undo needs is out of reach",
        "src/midflight/tools/folder.py",
        "if names and names[0].casefold() == KEEP:",
        "if False:",
        FILES,
    ),
    Mutant(
        "files: written only over the version that was read",
        TOOLS + "files.py",
        "if now is not None and now.version != version:",
        "if False:",
        FILES,
    ),
    Mutant(
        "files: one at a time among threads",
        "src/midflight/tools/file_replacement.py",
        "fcntl.flock(self.folder.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        FILES,
    ),
    Mutant(
        "files: an undo leaves alone what others have changed",
        TOOLS + "files.py",
        "            if version != after:\n                raise ChangedSince(path)\n",
        "",
        FILES,
    ),
    Mutant(
        "files: what is put back is what was there",
        TOOLS + "files.py",
        'if kept is None or kept.content.version != given["version"]:',
        "if kept is None:",
        FILES,
    ),
    Mutant(
        "files: a check that cannot look says nothing",
        TOOLS + "files.py",
        "        except ToolRefused as error:\n            return Unclear(str(error))\n"
        "        if after",
        "        except ZeroDivisionError as error:\n            return Unclear(str(error))\n"
        "        if after",
        FILES,
    ),
    Mutant(
        "files: a crash is looked into before a person is asked",
        TOOLS + "files.py",
        "            check=partial(self._check_move if moves else self._check, takes),\n",
        "",
        (STORIES + "a_crash_at_any_append_writes_each_file_once_and_asks_nobody",),
    ),
    Mutant(
        "tools: two workspaces do not share a name",
        TOOLS + "declaration.py",
        'return name_of(function), getattr(unwrapped(function), "__self__", None)',
        "return name_of(function), None",
        FILES,
    ),
    Mutant(
        "http: an address is judged after resolving",
        "src/midflight/tools/http.py",
        "[address for address in resolved if is_public(address)]",
        "resolved",
        HTTP,
    ),
    Mutant(
        "http: the connection goes to the address that was judged",
        "src/midflight/tools/http.py",
        "        return await self._inner.connect_tcp(last, port, timeout)",
        "        return await self._inner.connect_tcp(host, port, timeout)",
        HTTP,
    ),
    Mutant(
        "http: secrets stay with their site",
        "src/midflight/tools/http.py",
        "if _origin(onward) != _origin(target):",
        "if False:",
        HTTP,
    ),
    Mutant(
        "http: IPv6 that holds IPv4 is another way to the same door",
        "src/midflight/tools/http.py",
        "(found not in GLOBAL_V6 or found.scope_id)",
        "found.scope_id",
        HTTP,
    ),
    Mutant(
        "http: no header bends the request",
        "src/midflight/tools/http.py",
        "if OURS.fullmatch(key) or not",
        "if not",
        HTTP,
    ),
    Mutant(
        "sql: SQLite is asked by an authorizer",
        TOOLS + "sql_child.py",
        "    connection.set_authorizer(_allowed)\n",
        "",
        SQL,
    ),
    Mutant(
        "sql: a query to SQLite sorts in bounded memory, and not on the disk",
        TOOLS + "sql_child.py",
        "PRAGMA temp_store = MEMORY",
        "PRAGMA temp_store = FILE",
        ("tests/attacks/test_sqlite_tool.py",),
    ),
    Mutant(
        "sql: a query to SQLite is ended when its time is up",
        TOOLS + "sql.py",
        "            timeout_s=reader.timeout_s,\n",
        "",
        ("tests/attacks/test_sqlite_tool.py",),
    ),
    Mutant(
        "Postgres takes a SELECT of a model and nothing else",
        TOOLS + "sql.py",
        'f"SELECT * FROM (\\n{inner}\\n) AS asked"',
        "inner",
        SQL,
    ),
    Mutant(
        "Postgres is not asked by a model as its superuser",
        TOOLS + "sql.py",
        'if superuser == "on" and not reader.superuser:',
        "if False:",
        SQL,
    ),
    Mutant(
        "mcp: what is not listed is approved",
        TOOLS + "mcp.py",
        "approval=False if ours else rule,",
        "approval=False,",
        (MCP + "what_a_tool_does_is_what_we_have_listed_and_not_what_it_says",),
    ),
    Mutant(
        "mcp: a tool that has changed is not called",
        TOOLS + "mcp.py",
        "if _digest(listed[called]) != digest:",
        "if False:",
        (MCP + "a_tool_that_has_changed_since_it_was_listed_is_not_called",),
    ),
    Mutant(
        "mcp: a server runs under the supervisor",
        TOOLS + "mcp_link.py",
        "[*supervisor, *ours, *command]",
        "command",
        (MCP + "kill_9_of_us_ends_the_server_and_all_that_it_has_started",),
    ),
    Mutant(
        "mcp: SIGTERM ends the tree and not only its head",
        "src/midflight/tools/processes/supervisor.py",
        '        signal.signal(signal.SIGTERM, lambda *_: os.write(pipes[2], b"x") and None)',
        "        pass",
        (MCP + "closing_ends_the_server_and_all_that_it_has_started",),
    ),
    Mutant(
        "specs: a server's expressions keep nobody busy",
        "src/midflight/schemas/evaluation.py",
        "known_part(schema, patterns=patterns)",
        "known_part(schema, patterns=True)",
        ("tests/tools/test_specs.py",),
    ),
)
