"""The protecting layers between text of others and a terminal; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, NEVER, Mutant, Swap, Value, Without

FORGED = "tests/cli/test_forged.py::test_"

TERMINAL_MUTANTS = (
    Mutant(
        "terminal: what a command prints steers nothing",
        "command-prints-steers-nothing",
        Value("(str(word) for word in words)"),
        (FORGED + "questions_previews_and_deliveries_steer_nothing",),
    ),
    Mutant(
        "terminal: what is printed in colour steers nothing but by its styles",
        "printed-in-colour",
        ALWAYS,
        (FORGED + "a_viewer_cannot_write_on_the_screen_of_who_reads_the_thread",),
    ),
    Mutant(
        "terminal: no text of others is markup",
        "no-text-of-others-markup",
        Swap("False, emoji=False", "True, emoji=True"),
        (FORGED + "brief_step_words_result_and_receipt_are_shown_and_steer_nothing",),
    ),
    Mutant(
        "terminal: what is logged steers nothing",
        "what-logged-steers",
        Swap(
            "escaped(msgspec.json.encode(line, enc_hook=str).decode()",
            "msgspec.json.encode(line, enc_hook=str).decode(",
        ),
        (FORGED + "what_is_logged_steers_nothing_and_can_be_read_back",),
    ),
    Mutant(
        "terminal: what the app draws steers nothing, whoever forgot to make it visible",
        "app-draws-steers-nothing",
        Value("super().get_line_filters()"),
        ("tests/tui/test_forged.py",),
    ),
    Mutant(
        "time: nobody's time is counted for a dead driver",
        "nobody-time-counted-for-dead",
        NEVER,
        ("tests/journal/test_driven_time.py",),
    ),
    Mutant(
        "a redirect is not refused for the pause that was seen coming",
        "redirect",
        ALWAYS,
        ("tests/journal/test_keys.py",),
    ),
    Mutant(
        "terminal: a line that is refused stays open",
        "line-refused-stays-open",
        Value("self._after(True)"),
        ("tests/tui/test_forms.py::test_a_cap_that_is_none_stays_in_its_line",),
    ),
    Mutant(
        "assistant: a cut command is told as cut",
        "cut-command-told-as-cut",
        Without(0),
        ("tests/assistant/test_cut_commands.py",),
    ),
    Mutant(
        "terminal: what is approved hides nothing",
        "what-approved-hides",
        Value("False"),
        ("tests/attacks/test_whole_approvals.py",),
    ),
)
