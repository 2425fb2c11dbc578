"""The protecting layers between text of others and a terminal; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

FORGED = "tests/cli/test_forged.py::test_"

TERMINAL_MUTANTS = (
    Mutant(
        "terminal: what a command prints steers nothing",
        "src/midflight/interfaces/cli/console.py",
        "(visible(str(word)) for word in words)",
        "(str(word) for word in words)",
        (FORGED + "questions_previews_and_deliveries_steer_nothing",),
    ),
    Mutant(
        "terminal: what is printed in colour steers nothing but by its styles",
        "src/midflight/interfaces/cli/rich_console.py",
        "yield segment if segment.control else _shown(segment)",
        "yield segment",
        (FORGED + "a_viewer_cannot_write_on_the_screen_of_who_reads_the_thread",),
    ),
    Mutant(
        "terminal: no text of others is markup",
        "src/midflight/interfaces/cli/rich_console.py",
        "markup=False, emoji=False",
        "markup=True, emoji=True",
        (FORGED + "brief_step_words_result_and_receipt_are_shown_and_steer_nothing",),
    ),
    Mutant(
        "terminal: what is logged steers nothing",
        "src/midflight/interfaces/cli/console.py",
        "return escaped(msgspec.json.encode(line, enc_hook=str).decode())",
        "return msgspec.json.encode(line, enc_hook=str).decode()",
        (FORGED + "what_is_logged_steers_nothing_and_can_be_read_back",),
    ),
    Mutant(
        "terminal: what the app draws steers nothing, whoever forgot to make it visible",
        "src/midflight/interfaces/tui/tui_app.py",
        "[*super().get_line_filters(), Harmless()]",
        "super().get_line_filters()",
        ("tests/tui/test_forged.py",),
    ),
    Mutant(
        "time: nobody's time is counted for a dead driver",
        "src/midflight/journal/facts.py",
        "until = state.driven_at if state.entered and state.driver != driver else None",
        "until = None",
        ("tests/kernel/test_driven_time.py",),
    ),
    Mutant(
        "a redirect is not refused for the pause that was seen coming",
        "src/midflight/journal/fold.py",
        "    if not came_to_rest:",
        "    if True:",
        ("tests/kernel/test_keys.py",),
    ),
    Mutant(
        "terminal: a line that is refused stays open",
        "src/midflight/interfaces/tui/bar_widget.py",
        "                self._after(taken)",
        "                self._after(True)",
        ("tests/tui/test_forms.py::test_a_cap_that_is_none_stays_in_its_line",),
    ),
    Mutant(
        "assistant: a cut command is told as cut",
        "src/midflight/assistant/tool_batch.py",
        "so_far(redirected.cut or IN_DOUBT)",
        "so_far(IN_DOUBT)",
        ("tests/assistant/test_cut_commands.py",),
    ),
    Mutant(
        "terminal: what is approved hides nothing",
        "src/midflight/view/shown_values.py",
        "    return unicodedata.category(char) in HIDDEN or ord(char) in BLANK",
        "    return False",
        ("tests/attacks/test_whole_approvals.py",),
    ),
)
