"""The protecting layers of conversations: messages, triage, todos, the front; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

RUNTIME = "src/midflight/runtime/"
HARD = "tests/scenarios/test_messages_hard.py::test_"
CHAT = "tests/scenarios/test_conversation.py::test_"
SWITCHING = "tests/scenarios/test_switching.py::test_"
OVERRULE = "tests/scenarios/test_overrule.py::test_"
FRONT = "tests/kernel/test_front.py"
TURNED = "tests/scenarios/test_turned.py::test_"
WORDS = "tests/attacks/test_words.py::test_"

TALK_MUTANTS = (
    Mutant(
        "talk: the end of a run is one decision with its thread",
        RUNTIME + "threads/succession.py",
        "        after_end(moves, talk, finder(view), new=new, ended=run, stopped=stopped)\n",
        "",
        (HARD + "what_comes_next_is_begun_in_the_very_transaction_of_the_end",),
    ),
    Mutant(
        "talk: a viewer's message begins nothing",
        "src/midflight/journal/threads/front.py",
        "if m.who.role.steers and _is_left(m, find, ended)]",
        "if _is_left(m, find, ended)]",
        (FRONT,),
    ),
    Mutant(
        "talk: a model that chooses is not told what a viewer says",
        RUNTIME + "threads/thread_triage.py",
        "self._chosen([m for m in messages if m.who.role.steers])",
        "self._chosen(list(messages))",
        (SWITCHING + "a_message_of_a_viewer_is_read_as_such_and_moves_nothing",),
    ),
    Mutant(
        "talk: what was chosen holds for the text that was looked at",
        RUNTIME + "threads/thread_triage.py",
        " and not now.choice and now.text == message.text",
        " and not now.choice",
        (OVERRULE + "a_message_that_is_edited_while_it_is_looked_at_is_looked_at_again",),
    ),
    Mutant(
        "talk: a message is chosen about once",
        RUNTIME + "threads/thread_triage.py",
        " and not now.choice and now.text == message.text",
        " and now.text == message.text",
        (OVERRULE + "what_a_person_has_chosen_while_a_model_thinks_stands",),
    ),
    Mutant(
        "talk: a hold of a waiting run aborts its triage",
        RUNTIME + "threads/thread_triage.py",
        "            with host.journal.listening(self._abort_if_stopped):\n",
        "            if True:\n",
        (HARD + "a_pause_in_the_middle_of_a_triage_of_a_waiting_run_lists_and_aborts_it",),
    ),
    Mutant(
        "talk: what was not read yet is no silence",
        RUNTIME + "threads/thread_messages.py",
        "                if not self._more_than(heard):\n                    break\n",
        "                break\n",
        (HARD + "a_driver_that_was_busy_does_not_take_what_it_has_not_read_for_silence",),
    ),
    Mutant(
        "talk: nobody is asked while a person holds the run",
        RUNTIME + "threads/thread_triage.py",
        "        return host.gate.moves and host.signals.told is None and not host.gate.draining\n",
        "        return host.signals.told is None and not host.gate.draining\n",
        (CHAT + "a_pause_aborts_the_triage_and_it_is_made_again_after_the_resume",),
    ),
    Mutant(
        "talk: only the run in front looks at messages",
        RUNTIME + "threads/thread_messages.py",
        "        return talk is not None and in_front and bool(front.open_messages(talk))\n",
        "        return talk is not None and bool(front.open_messages(talk))\n",
        (SWITCHING + "a_run_that_is_started_beside_leaves_messages_to_the_front",),
    ),
    Mutant(
        "talk: a replay knows nothing of a triage",
        RUNTIME + "replay/history.py",
        "            case e.AttemptStarted(tool=transition_table.TRIAGE):\n",
        "            case e.AttemptStarted(tool='none of them'):\n",
        (CHAT + "a_triage_is_on_record_as_a_model_call_and_replay_knows_nothing_of_it",),
    ),
    Mutant(
        "talk: messages for a parked run wait for it",
        "src/midflight/journal/threads/front.py",
        "*(m.position for m in chosen if m.run == run)",
        "*(m.position for m in chosen)",
        (SWITCHING + "messages_for_a_parked_run_wait_for_it_and_not_for_who_is_in_front",),
    ),
    Mutant(
        "talk: what an ended run has not read is open again",
        "src/midflight/journal/threads/front.py",
        "    left = [m for m in talk.unread.values() if m.run == ended]\n",
        "    left: list[t.Message] = []\n",
        (FRONT,),
    ),
    Mutant(
        "talk: the front is taken only when it is free",
        "src/midflight/journal/threads/front.py",
        "    return run is None or not run.alive or Cause.PARKED in run.holds\n",
        "    return True\n",
        (FRONT,),
    ),
    Mutant(
        "talk: a parked run leaves the front",
        "src/midflight/journal/threads/front.py",
        "    return run is None or not run.alive or Cause.PARKED in run.holds\n",
        "    return run is None or not run.alive\n",
        (FRONT,),
    ),
    Mutant(
        "talk: a run that is gone is not brought back",
        "src/midflight/journal/threads/front.py",
        '        if todo.kind == "parked" and is_parked(todo, find):\n',
        '        if todo.kind == "parked":\n',
        (FRONT,),
    ),
    Mutant(
        "talk: the sweep looks after threads",
        "src/midflight/engines/sweep.py",
        '        await self._look_after_threads([row for row in due if row.kind == "thread"])\n',
        "",
        (HARD + "who_dies_after_storing_a_message_leaves_it_to_the_sweep",),
    ),
    Mutant(
        "talk: the switch of the agent that would go on is looked at",
        RUNTIME + "threads/succession.py",
        "                raise Uncovered(event.agent)\n",
        "                pass\n",
        (SWITCHING + "an_agent_that_is_stopped_begins_nothing_for_a_message_or_a_todo",),
    ),
    Mutant(
        "talk: only a whole message is a stop word",
        "src/midflight/conversation.py",
        "    if said in STOP_WORDS:\n",
        "    if any(word in said for word in STOP_WORDS):\n",
        (OVERRULE + "nothing_but_the_whole_message_is_a_stop_word",),
    ),
    Mutant(
        "talk: a waiting run begins nothing but a look at its messages",
        "src/midflight/journal/transition_table.py",
        "    if s.phase is W and not (event.tool == TRIAGE and event.effect is Effect.MODEL):\n",
        "    if False:\n",
        ("tests/kernel/test_table.py",),
    ),
    Mutant(
        "talk: what was chosen is applied only while the run moves",
        RUNTIME + "threads/thread_triage.py",
        "            if not still_moves(mine, host.journal.epoch) or talk.front",
        "            if talk.front",
        (HARD + "a_pause_that_comes_as_the_triage_ends_leaves_the_messages_open",),
    ),
    Mutant(
        "talk: only who may steer redirects by a message",
        "src/midflight/control/messages.py",
        '(stop_word(text), new_course(text)) if steers else ("", "")',
        "(stop_word(text) if steers else '', new_course(text))",
        (TURNED + "who_may_only_look_redirects_nothing",),
    ),
    Mutant(
        "talk: a message that has redirected is not read as well",
        "src/midflight/control/messages.py",
        "        e.MessagesTaken(run=run, upto=sent.position, messages=(sent.position,)),\n",
        "",
        (TURNED + "the_run_in_front_is_redirected_in_the_senders_name_and_no_triage_is_asked",),
    ),
    Mutant(
        "words: the delimiter of a quote is made from the text that it quotes",
        "src/midflight/assistant/dialogue.py",
        "blake2b(words, key=secret",
        "blake2b(b'', key=secret",
        (WORDS + "a_viewer_who_knows_the_delimiter_of_a_quote_cannot_end_the_next_one",),
    ),
    Mutant(
        "words: a result that strangers may have written is quoted",
        "src/midflight/assistant/dialogue.py",
        "                text = quoted(self.key, source, text, why=STRANGER)\n",
        "",
        (WORDS + "a_page_that_ends_its_quote_and_gives_an_order_stays_inside_the_quote",),
    ),
    Mutant(
        "words: a read that leaves the machine needs consent after strangers were read",
        "src/midflight/assistant/tool_batch.py",
        "if untrusted and (called.outside or ",
        "if untrusted and (",
        (WORDS + "a_page_that_ends_its_quote_and_gives_an_order_stays_inside_the_quote",),
    ),
    Mutant(
        "words: what a run says is marked if it has read strangers",
        RUNTIME + "threads/thread_messages.py",
        "            untrusted=mine.untrusted,\n",
        "",
        (WORDS + "taint_of_a_run_is_found_by_the_next_run_that_reads_its_clean_words",),
    ),
    Mutant(
        "words: what is saved from a cancelled run is marked if it was reading strangers",
        "src/midflight/assistant/tool_batch.py",
        "            await run.distrust(called.name)  #",
        "            pass  #",
        (WORDS + "taint_is_found_in_what_was_saved_from_a_cancelled_run",),
    ),
)
