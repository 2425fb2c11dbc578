"""What the site has and no file of ``docs/`` says: references, source, pages kept at the root.

Pages are written to be read in the repository, so their links point to files of it. Here each link
is turned into one between pages of the site; what has no page there is an error of the build.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any, Final

import http_reference
import python_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
KEPT: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
}
"""Pages that live elsewhere in the repository -> where they are on the site."""

FOLDERS: Final = {"docs/decisions": "decisions/index.md", "examples": "examples.md"}
LINK: Final = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give a page that nobody has placed a place, so that a new one needs no second edit."""
    nav: list[Any] = config.nav or []
    placed = str(nav)
    for path in sorted((ROOT / "docs").glob("*.md")):
        if f"'{path.name}'" not in placed:
            measured = path.name.startswith("benchmarks-")
            _below(nav, "Measured" if measured else "Parts").append(path.name)
    return config


def _below(nav: list[Any], heading: str) -> list[Any]:
    """The pages under a heading, however deep it is."""
    sections = [(name, pages) for entry in nav for name, pages in entry.items()]
    inner = [pages for _, pages in sections if isinstance(pages, list)]
    mine = [pages for name, pages in sections if name == heading]
    return next(filter(None, [*mine, *(_below(pages, heading) for pages in inner)]), [])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made = {KEPT[name]: (ROOT / name).read_text(encoding="utf-8") for name in KEPT}
    made |= {_page_of(name): _source(name) for name in _shown(files)}
    made["decisions/index.md"] = _decisions()
    made["reference/http.md"] = http_reference.page(http_reference.document())
    made["reference/python.md"] = python_reference.page()
    for where, content in made.items():
        files.append(File.generated(config, where, content=content))
    return files


def _shown(files: Files) -> set[str]:
    """Programs that a page links to: each is shown whole, on a page of its own."""
    homes = {*KEPT, *(f"docs/{file.src_uri}" for file in files.documentation_pages())}
    links = {
        _target(home, link[1])
        for home in homes
        for link in LINK.finditer((ROOT / home).read_text(encoding="utf-8"))
    }
    return {link for link in links if link.endswith(".py") and (ROOT / link).is_file()}


def _target(home: str, link: str) -> str:
    """The file of the repository that a link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), link))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Make links of the repository links of the site, and leave out what needs the internet."""
    where = page.file.src_uri
    home = next((name for name, there in KEPT.items() if there == where), f"docs/{where}")
    turned = LINK.sub(lambda link: _turned(link, home, where), markdown)
    return re.sub(r"```mermaid\n.*?```", _moves, turned, flags=re.DOTALL)


def _turned(link: re.Match[str], home: str, where: str) -> str:
    target = _target(home, link[1])
    there = KEPT.get(target) or FOLDERS.get(target)
    there = there or (_page_of(target) if target.endswith(".py") else "")
    there = there or (target.removeprefix("docs/") if target.startswith("docs/") else "")
    if not there:
        return link[0]
    return f"]({posixpath.relpath(there, posixpath.dirname(where) or '.')}{link[2] or ''})"


def _page_of(program: str) -> str:
    return f"source/{program.removesuffix('.py').replace('/', '-')}.md"


def _source(program: str) -> str:
    text = (ROOT / program).read_text(encoding="utf-8")
    about = (ast.get_docstring(ast.parse(text)) or "").replace("``", "`")
    return f"---\nsearch:\n  exclude: true\n---\n# {program}\n\n{about}\n\n```python\n{text}```\n"


def _decisions() -> str:
    lines = ["# Decisions", "", "Why things are as they are, one page each.", ""]
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        heading = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        number, _, title = heading.partition(". ")
        lines.append(f"{number}. [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def _moves(drawing: re.Match[str]) -> str:
    """The state diagram as a table: what draws the picture would be loaded from elsewhere."""
    rows = re.findall(r"^ +(\S+) --> (\S+): (.+)$", drawing[0], re.MULTILINE)
    lines = ["| from | by | to |", "|---|---|---|"]
    for before, after, events in rows:
        named = ", ".join(f"`{event}`" for event in events.split(", "))
        lines.append(f"| {before.replace('[*]', 'nothing')} | {named} | {after} |")
    return "\n".join(lines)
