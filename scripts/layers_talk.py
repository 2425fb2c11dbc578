"""The protecting layers of conversations: messages, triage, todos, the front; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Mutant, Swap, Value, Without

HARD = "tests/scenarios/test_messages_hard.py::test_"
CHAT = "tests/scenarios/test_conversation.py::test_"
SWITCHING = "tests/scenarios/test_switching.py::test_"
OVERRULE = "tests/scenarios/test_overrule.py::test_"
FRONT = "tests/journal/test_front.py"
TURNED = "tests/scenarios/test_turned.py::test_"
WORDS = "tests/attacks/test_words.py::test_"

TALK_MUTANTS = (
    Mutant(
        "talk: the end of a run is one decision with its thread",
        "end-of-run-one-decision",
        DROP,
        (HARD + "what_comes_next_is_begun_in_the_very_transaction_of_the_end",),
    ),
    Mutant(
        "talk: a viewer's message begins nothing",
        "viewer-message-begins-nothing",
        Without(0),
        (FRONT,),
    ),
    Mutant(
        "talk: a model that chooses is not told what a viewer says",
        "model-chooses-not-told-what-viewer",
        Swap("[m for m in messages if m.who.role.steers]", "list(messages)"),
        (SWITCHING + "a_message_of_a_viewer_is_read_as_such_and_moves_nothing",),
    ),
    Mutant(
        "talk: what was chosen holds for the text that was looked at",
        "chosen-holds-for-text-looked",
        Without(2),
        (OVERRULE + "a_message_that_is_edited_while_it_is_looked_at_is_looked_at_again",),
    ),
    Mutant(
        "talk: a message is chosen about once",
        "chosen-holds-for-text-looked",
        Without(1),
        (OVERRULE + "what_a_person_has_chosen_while_a_model_thinks_stands",),
    ),
    Mutant(
        "talk: a hold of a waiting run aborts its triage",
        "hold-of-waiting-run-aborts",
        Swap("with host.journal.listening(self._abort_if_stopped)", "if True"),
        (HARD + "a_pause_in_the_middle_of_a_triage_of_a_waiting_run_lists_and_aborts_it",),
    ),
    Mutant(
        "talk: what was not read yet is no silence",
        "not-read-yet-no-silence",
        ALWAYS,
        (HARD + "a_driver_that_was_busy_does_not_take_what_it_has_not_read_for_silence",),
    ),
    Mutant(
        "talk: nobody is asked while a person holds the run",
        "nobody-asked-while-person-holds",
        Without(0),
        (CHAT + "a_pause_aborts_the_triage_and_it_is_made_again_after_the_resume",),
    ),
    Mutant(
        "talk: only the run in front looks at messages",
        "only-run-in-front-looks",
        Without(1),
        (SWITCHING + "a_run_that_is_started_beside_leaves_messages_to_the_front",),
    ),
    Mutant(
        "talk: a replay knows nothing of a triage",
        "replay-knows-nothing",
        Swap("transition_table.TRIAGE", "'none of them'"),
        (CHAT + "a_triage_is_on_record_as_a_model_call_and_replay_knows_nothing_of_it",),
    ),
    Mutant(
        "talk: messages for a parked run wait for it",
        "messages-for-parked-run-wait",
        ALWAYS,
        (SWITCHING + "messages_for_a_parked_run_wait_for_it_and_not_for_who_is_in_front",),
    ),
    Mutant(
        "talk: what an ended run has not read is open again",
        "ended-run-has-not-read",
        Value("[]"),
        (FRONT,),
    ),
    Mutant(
        "talk: the front is taken only when it is free",
        "front-taken-only",
        Value("True"),
        (FRONT,),
    ),
    Mutant(
        "talk: a parked run leaves the front",
        "front-taken-only",
        Without(2),
        (FRONT,),
    ),
    Mutant(
        "talk: a run that is gone is not brought back",
        "run-gone-not-brought-back",
        Without(1),
        (FRONT,),
    ),
    Mutant(
        "talk: the sweep looks after threads",
        "sweep-looks-after-threads",
        DROP,
        (HARD + "who_dies_after_storing_a_message_leaves_it_to_the_sweep",),
    ),
    Mutant(
        "talk: the switch of the agent that would go on is looked at",
        "switch-of-agent-would-go",
        DROP,
        (SWITCHING + "an_agent_that_is_stopped_begins_nothing_for_a_message_or_a_todo",),
    ),
    Mutant(
        "talk: only a whole message is a stop word",
        "only-whole-message-stop-word",
        Swap("said in STOP_WORDS", "any(word in said for word in STOP_WORDS)"),
        (OVERRULE + "nothing_but_the_whole_message_is_a_stop_word",),
    ),
    Mutant(
        "talk: a waiting run begins nothing but a look at its messages",
        "waiting-run-begins-nothing",
        NEVER,
        ("tests/journal/test_table.py",),
    ),
    Mutant(
        "talk: what was chosen is applied only while the run moves",
        "chosen-applied-only-while-run",
        Without(0),
        (HARD + "a_pause_that_comes_as_the_triage_ends_leaves_the_messages_open",),
    ),
    Mutant(
        "talk: only who may steer redirects by a message",
        "only-may-steer-redirects",
        Swap(', new_course(text)) if steers else ("", ""', " if steers else '', new_course(text)"),
        (TURNED + "who_may_only_look_redirects_nothing",),
    ),
    Mutant(
        "talk: a message that has redirected is not read as well",
        "message-has-redirected-not-read",
        DROP,
        (TURNED + "the_run_in_front_is_redirected_in_the_senders_name_and_no_triage_is_asked",),
    ),
    Mutant(
        "words: the delimiter of a quote is made from the text that it quotes",
        "delimiter-of-quote-made-from-text",
        Swap("words", "b''"),
        (WORDS + "a_viewer_who_knows_the_delimiter_of_a_quote_cannot_end_the_next_one",),
    ),
    Mutant(
        "words: a result that strangers may have written is quoted",
        "result-strangers",
        DROP,
        (WORDS + "a_page_that_ends_its_quote_and_gives_an_order_stays_inside_the_quote",),
    ),
    Mutant(
        "words: a read that leaves the machine needs consent after strangers were read",
        "read-leaves-machine-needs-consent",
        Swap("called.outside or ", ""),
        (WORDS + "a_page_that_ends_its_quote_and_gives_an_order_stays_inside_the_quote",),
    ),
    Mutant(
        "words: what a run says is marked if it has read strangers",
        "run-says-marked-if-has",
        Without("untrusted"),
        (WORDS + "taint_of_a_run_is_found_by_the_next_run_that_reads_its_clean_words",),
    ),
    Mutant(
        "words: what is saved from a cancelled run is marked if it was reading strangers",
        "saved-from-cancelled-run",
        DROP,
        (WORDS + "taint_is_found_in_what_was_saved_from_a_cancelled_run",),
    ),
)
