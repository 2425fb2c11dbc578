"""The code in the handbook is the code of the pages that the browser tries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BLOCKS = re.findall(
    r"^```javascript\n(.*?)\n```$",
    (HERE.parents[2] / "docs/agui-interfaces.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0][:30] for block in BLOCKS])
def test_code_of_the_handbook_is_code_of_a_page(block: str) -> None:
    pages = [path.read_text("utf-8") for path in (HERE / "pages").glob("*.js*")]
    assert any(block in page for page in pages)
