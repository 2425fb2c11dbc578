"""The protecting layers of channels; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

CHANNELS = "src/midflight/channels/"
PEOPLE, WIRE = "tests/channels/test_discord_people.py", "tests/channels/test_discord_wire.py"
INPUT, HOOK = "tests/channels/test_discord_input.py", "tests/channels/test_webhook.py"
RELAY, CONTROLS = "tests/channels/test_relay.py", "tests/channels/test_discord_controls.py"

CHANNEL_MUTANTS = (
    Mutant(
        "channels: what is delivered twice is heard once",
        CHANNELS + "switchboard.py",
        "        if self.has_heard(chat, heard.id):\n",
        "        if False:\n",
        (PEOPLE,),
    ),
    Mutant(
        "channels: what was being posted is remembered",
        CHANNELS + "relay.py",
        "        memory.posting = upto\n",
        "        pass\n",
        (RELAY,),
    ),
    Mutant(
        "channels: how far a chat was told is remembered",
        CHANNELS + "relay.py",
        "        memory.cursors.update(upto)\n",
        "        pass\n",
        (RELAY, WIRE),
    ),
    Mutant(
        "channels: an end is shown after the last words",
        CHANNELS + "relay.py",
        "        if self._told.items and self._shows_an_end(book):\n",
        "        if False:\n",
        (RELAY,),
    ),
    Mutant(
        "channels: a press is written down before it is done",
        CHANNELS + "discord_presses.py",
        "        await self._client.board.remember(chat, key, code, who, way=way, fields=fields)\n",
        "",
        (INPUT,),
    ),
    Mutant(
        "channels: a button reaches only into its own conversation",
        CHANNELS + "finding.py",
        "Query(thread=memory.thread, before=before)",
        "Query(before=before)",
        (RELAY,),
    ),
    Mutant(
        "channels: nobody hears their own words again",
        CHANNELS + "following.py",
        "here=about is not None and about.here",
        "here=False",
        (HOOK,),
    ),
    Mutant(
        "channels: who may only look may only look",
        CHANNELS + "people.py",
        "        return Who(by=called, role=role,",
        "        return Who(by=called, role=Role.CONTROLLER,",
        (PEOPLE,),
    ),
    Mutant(
        "channels: nobody is pinged by what an agent says",
        CHANNELS + "discord.py",
        "            allowed_mentions=discord.AllowedMentions.none(),\n",
        "",
        ("tests/channels/test_discord_talk.py",),
    ),
    Mutant(
        "channels: what was missed is looked up with the roles of who wrote it",
        CHANNELS + "discord_missed.py",
        "    await _with_roles(message)\n",
        "",
        (WIRE,),
    ),
    Mutant(
        "channels: what was removed while we were away is withdrawn",
        CHANNELS + "discord_missed.py",
        "            await board.withdraw(chat, number)\n",
        "            pass\n",
        (WIRE,),
    ),
    Mutant(
        "channels: what was changed while we were away is corrected",
        CHANNELS + "discord_missed.py",
        "            await _compare(client, message)\n",
        "            pass\n",
        (WIRE,),
    ),
    Mutant(
        "channels: of much that was missed the newest is looked at",
        CHANNELS + "discord_missed.py",
        "oldest_first=False",
        "oldest_first=True",
        (WIRE,),
    ),
    Mutant(
        "channels: nobody changes the words of others",
        CHANNELS + "inbox.py",
        "    if by and by != who.by:\n",
        "    if False:\n",
        (HOOK,),
    ),
    Mutant(
        "channels: a chat's ids are its own",
        CHANNELS + "inbox.py",
        " and known[position].who.channel == here",
        "",
        (RELAY,),
    ),
    Mutant(
        "channels: another agent's chat has a thread of its own",
        CHANNELS + "inbox.py",
        'return f"{thread}-{self._agent.name}" if others else thread',
        "return thread",
        (RELAY,),
    ),
    Mutant(
        "channels: what cannot be stopped is asked about before a cancel",
        CHANNELS + "desk.py",
        'if action.verb == "cancel" and offer.confirm and',
        "if False and",
        (CONTROLS,),
    ),
    Mutant(
        "channels: a cancel that was pressed long ago is asked about",
        CHANNELS + "desk.py",
        "            if late and asks and not",
        "            if False and not",
        (RELAY,),
    ),
    Mutant(
        "channels: a late press that was done is not asked about",
        CHANNELS + "desk.py",
        " and not await self._is_done(memory, action, who, key)",
        "",
        (RELAY,),
    ),
    Mutant(
        "channels: an expired way to answer is not taken for a revoked token",
        CHANNELS + "discord_presses.py",
        "        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:\n",
        "        except ZeroDivisionError as error:\n",
        (INPUT,),
    ),
    Mutant(
        "channels: undo of what nobody has read withdraws it",
        CHANNELS + "desk.py",
        'if action.choice == "undo" and talk is not None',
        "if False",
        ("tests/channels/test_discord_talk.py",),
    ),
    Mutant(
        "channels: files that are too much do not hold up what was kept",
        CHANNELS + "discord_posts.py",
        "    if error.status == TOO_LARGE:\n",
        "    if False:\n",
        (CONTROLS,),
    ),
    Mutant(
        "channels: a code block that is cut is whole on both sides",
        CHANNELS + "splitting.py",
        "[*held, fence] if fence else held",
        "held",
        ("tests/channels/test_shown.py",),
    ),
    Mutant(
        "channels: a name says nothing but a name",
        CHANNELS + "people.py",
        'return _ODD.sub("_", given)[:NAME_MAX] or "somebody"',
        "return given",
        ("tests/channels/test_shown.py",),
    ),
    Mutant(
        "webhook: who has not signed it is not heard",
        CHANNELS + "signing.py",
        "        if not any(genuine):\n",
        "        if False:\n",
        (HOOK,),
    ),
    Mutant(
        "webhook: what is old is not taken",
        CHANNELS + "signing.py",
        "        if abs(now - int(stamp)) > TOLERANCE_S:\n",
        "        if False:\n",
        (HOOK,),
    ),
    Mutant(
        "webhook: a copy is not taken",
        CHANNELS + "signing.py",
        "        if signature in self._seen:\n",
        "        if False:\n",
        (HOOK,),
    ),
    Mutant(
        "webhook: private addresses are not told",
        CHANNELS + "webhook.py",
        "network_backend=Doorkeeper(self._allow)",
        "",
        (HOOK,),
    ),
)
