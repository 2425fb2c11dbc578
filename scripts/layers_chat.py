"""The protecting layers of channels; see ``layers.py``."""

from __future__ import annotations

from marks import DROP, NEVER, Mutant, Swap, Value, Without

PEOPLE, WIRE = "tests/chat/test_discord_people.py", "tests/chat/test_discord_wire.py"
INPUT, HOOK = "tests/chat/test_discord_input.py", "tests/chat/test_webhook.py"
RELAY, CONTROLS = "tests/chat/test_relay.py", "tests/chat/test_discord_controls.py"

CHANNEL_MUTANTS = (
    Mutant(
        "channels: what is delivered twice is heard once",
        "delivered-twice-heard-once",
        NEVER,
        (PEOPLE,),
    ),
    Mutant(
        "channels: what was being posted is remembered",
        "what-posted-remembered",
        DROP,
        (RELAY,),
    ),
    Mutant(
        "channels: how far a chat was told is remembered",
        "how-far-chat-told-remembered",
        DROP,
        (RELAY, WIRE),
    ),
    Mutant(
        "channels: an end is shown after the last words",
        "end-shown-after-last-words",
        NEVER,
        (RELAY,),
    ),
    Mutant(
        "channels: a press is written down before it is done",
        "press-written-down-before-done",
        DROP,
        (INPUT,),
    ),
    Mutant(
        "channels: a button reaches only into its own conversation",
        "button-reaches-only-into-own",
        Without("thread"),
        (RELAY,),
    ),
    Mutant(
        "channels: nobody hears their own words again",
        "nobody-hears-own-words-again",
        Value("False"),
        (HOOK,),
    ),
    Mutant(
        "channels: who may only look may only look",
        "may-only-look",
        Swap("role,", "Role.CONTROLLER,"),
        (PEOPLE,),
    ),
    Mutant(
        "channels: nobody is pinged by what an agent says",
        "nobody-pinged-by-what-agent-says",
        Without("allowed_mentions"),
        ("tests/chat/test_discord_talk.py",),
    ),
    Mutant(
        "channels: what was missed is looked up with the roles of who wrote it",
        "missed-looked-up-with-roles",
        DROP,
        (WIRE,),
    ),
    Mutant(
        "channels: what was removed while we were away is withdrawn",
        "removed-while-we-away",
        DROP,
        (WIRE,),
    ),
    Mutant(
        "channels: what was changed while we were away is corrected",
        "changed-while-we-away",
        DROP,
        (WIRE,),
    ),
    Mutant(
        "channels: of much that was missed the newest is looked at",
        "much-missed-newest-looked",
        Swap("False", "True"),
        (WIRE,),
    ),
    Mutant(
        "channels: nobody changes the words of others",
        "nobody-changes-words-of-others",
        NEVER,
        (HOOK,),
    ),
    Mutant(
        "channels: a chat's ids are its own",
        "chat-ids-own",
        Swap(" and known[position].who.channel == here", ""),
        (RELAY,),
    ),
    Mutant(
        "channels: another agent's chat has a thread of its own",
        "another-agent-chat-has",
        NEVER,
        (RELAY,),
    ),
    Mutant(
        "channels: what cannot be stopped is asked about before a cancel",
        "cannot-stopped-asked-about",
        NEVER,
        (CONTROLS,),
    ),
    Mutant(
        "channels: a cancel that was pressed long ago is asked about",
        "cancel-pressed-long-ago-asked",
        NEVER,
        (RELAY,),
    ),
    Mutant(
        "channels: a late press that was done is not asked about",
        "cancel-pressed-long-ago-asked",
        Without(2),
        (RELAY,),
    ),
    Mutant(
        "channels: an expired way to answer is not taken for a revoked token",
        "expired-way-to-answer-not-taken",
        NEVER,
        (INPUT,),
    ),
    Mutant(
        "channels: undo of what nobody has read withdraws it",
        "undo-of-what-nobody-has-read",
        NEVER,
        ("tests/chat/test_discord_talk.py",),
    ),
    Mutant(
        "channels: files that are too much do not hold up what was kept",
        "files-too-much-do-not-hold",
        NEVER,
        (CONTROLS,),
    ),
    Mutant(
        "channels: a code block that is cut is whole on both sides",
        "code-block-cut",
        NEVER,
        ("tests/chat/test_shown.py",),
    ),
    Mutant(
        "channels: a name says nothing but a name",
        "name-says-nothing-but-name",
        Value("given"),
        ("tests/chat/test_shown.py",),
    ),
    Mutant(
        "webhook: who has not signed it is not heard",
        "has-not-signed-not-heard",
        NEVER,
        (HOOK,),
    ),
    Mutant(
        "webhook: what is old is not taken",
        "old-not-taken",
        NEVER,
        (HOOK,),
    ),
    Mutant(
        "webhook: a copy is not taken",
        "copy-not-taken",
        NEVER,
        (HOOK,),
    ),
    Mutant(
        "webhook: private addresses are not told",
        "private-addresses-not-told",
        Without("network_backend"),
        (HOOK,),
    ),
    Mutant(
        "discord: what turns the direction of reading is shown as a sign",
        "turns-direction-of-reading",
        Value("text"),
        ("tests/chat/test_shown.py",),
    ),
    Mutant(
        "channels: arguments that would end their block go as a file",
        "arguments-would-end",
        Swap('"``" in facts or facts.endswith("`") or ', ""),
        ("tests/attacks/test_whole_approvals.py",),
    ),
    Mutant(
        "channels: what cannot be attached cannot be approved",
        "what-cannot-attached",
        NEVER,
        (CONTROLS + "::test_where_a_chat_takes_no_file_what_needs_one_cannot_be_approved_there",),
    ),
)
