"""The page about HTTP, made from the OpenAPI document that the server itself answers with."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from midflight.control import Control
from midflight.interfaces.app import create_app
from midflight.interfaces.http import problems
from midflight.stores.memory import MemoryStore

PREFIX: Final = "#/components/schemas/"
HEADINGS: Final = {
    "runs": "Runs",
    "threads": "Threads",
    "events": "Watching",
    "access": "Coming in",
    "operator": "The operator",
    "AG-UI": "AG-UI",
}


def document() -> dict[str, Any]:
    """What ``GET /openapi.json`` answers."""
    return create_app(Control(MemoryStore())).openapi()


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    about = found["info"]["description"]
    lines = ["# HTTP reference", "", about, "", "Made from `openapi.json` of this version."]
    lines += ["How it is meant to be used: [Over HTTP](../server.md).", ""]
    for tag, routes in _by_tag(found).items():
        lines += [f"## {HEADINGS.get(tag, tag)}", ""]
        for method, path, route in routes:
            lines += [*_route(method, path, route), ""]
    lines += ["## When it is refused", "", *_refusals(), "", "## Shapes", ""]
    for name, schema in sorted(found["components"]["schemas"].items(), key=lambda x: _short(x[0])):
        lines += [*_shape(name, schema), ""]
    return "\n".join(lines)


def _refusals() -> Iterator[str]:
    yield "Every error is a [ProblemView](#shape-problemview). Beside what the door refuses (400,"
    yield "401, 403, 413, 415, 421, 422, 429), the run or the store may say no:"
    yield ""
    yield "| status | `error` | when |"
    yield "|---|---|---|"
    for kind, (status, name) in problems.STATUS.items():
        yield f"| {status} | `{name}` | {_words(inspect.getdoc(kind) or '')} |"
    yield "| 500 | `failed` | Anything else; `changed` is `null`: nobody knows whether it was. |"


def _by_tag(found: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    grouped: dict[str, list[tuple[str, str, dict[str, Any]]]] = {tag: [] for tag in HEADINGS}
    for path, methods in found["paths"].items():
        for method, route in methods.items():
            tag = next(iter(route.get("tags", ())), "other")
            grouped.setdefault(tag, []).append((method.upper(), path, route))
    return {tag: routes for tag, routes in grouped.items() if routes}


def _route(method: str, path: str, route: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method} {path}` {{#{route['operationId']}}}"
    yield ""
    yield _words(route.get("description", ""))
    yield ""
    if given := [one for one in route.get("parameters", ()) if one["in"] != "path"]:
        yield "| given in | name | what | |"
        yield "|---|---|---|---|"
        for one in given:
            about = _words(one.get("description") or one["schema"].get("description", ""))
            yield f"| {one['in']} | `{one['name']}` | {_kind(one['schema'])} | {about} |"
        yield ""
    if body := route.get("requestBody"):
        yield f"Body: {_kind(_content(body))}."
    for status, answer in route["responses"].items():
        if status.startswith(("2", "503")):
            yield f"Answers {status}: {_kind(_content(answer)) or answer['description']}."


def _content(body: Mapping[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = next(iter(body.get("content", {}).values()), {})
    schema: dict[str, Any] = first.get("schema", {})
    return schema


def _shape(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {_short(name)} {{#{_anchor(name)}}}"
    yield ""
    yield _words(schema.get("description", ""))
    yield ""
    if values := schema.get("enum"):
        yield "One of " + ", ".join(f"`{value}`" for value in values) + "."
    if fields := schema.get("properties"):
        needed = set(schema.get("required", ()))
        yield "| field | what | |"
        yield "|---|---|---|"
        for field, about in fields.items():
            say = _words(about.get("description", ""))
            may = "" if field in needed else "may be missing"
            yield f"| `{field}` | {_kind(about)} | {'; '.join(filter(None, [may, say]))} |"
    for example in schema.get("examples", ())[:2]:
        yield ""
        yield f"For example `{json.dumps(example, ensure_ascii=False)}`"


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, with links to shapes that have a name."""
    if reference := schema.get("$ref"):
        name = reference.removeprefix(PREFIX)
        return f"[{_short(name)}](#{_anchor(name)})"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(filter(None, map(_kind, options))))
    if values := schema.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    kind = schema.get("type", "")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list of {_kind(schema['items']) or 'anything'}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_kind(schema['additionalProperties']) or 'anything'}"
    return str(kind)


def _short(name: str) -> str:
    return name.rpartition(".")[2] if name.startswith("midflight.") else name


def _anchor(name: str) -> str:
    return "shape-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("``", "`")).replace("|", r"\|").strip()
