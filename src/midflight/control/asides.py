"""Questions beside the work: answered in the thread, and the run is not touched."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.control.ack import Ack
from midflight.control.drivers import is_alone
from midflight.control.recorder import Recorder
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.record import Actor
from midflight.journal.requests import ASIDE, refuse_if_stopped
from midflight.journal.state import RunState
from midflight.journal.status import status
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
from midflight.runtime.threads.recollection import spoken
from midflight.stores.protocol import THREAD_PREFIX, View

TAIL: Final = 20  # lines of the conversation that a side question is answered from


class Asides:
    """Answers questions about a run."""

    def __init__(self, record: Recorder) -> None:
        self.record = record

    async def ask_aside(self, to: str, text: str, *, who: Actor, key: str) -> Ack:
        """Ask something about a run without touching it, also while it is paused.

        Answered in the thread: by a run of the agent's ``aside``, or at once with how it stands.
        """
        about = to if not to.startswith(THREAD_PREFIX) else ""
        about = about or await self.record.front(await self.record.thread(to))
        if not about:
            raise InvalidRequest(
                f"there is nothing to ask about: no run was ever started in thread {to}. Nothing "
                "was changed."
            )
        state = await self.record.store.load(about)
        assert isinstance(state, RunState)
        asked = t.AsideAsked(who=who, key=key, text=text, run=about)
        alone = await is_alone(self.record.store, state)
        stands = status(state, await self.record.store.now(), alone=alone)
        talk = await self.record.thread(state.thread)
        hosts = talk.host is not None and front.is_host(talk, state) and talk.host.asides
        if not ((state.asides or hosts) and asked.who.role.steers):

            def answered(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
                told = t.Said(run=about, text=stands, kind="aside", untrusted=state.untrusted)
                moves.add(talk.journal, told)
                return {"status": stands}

            return await self.record.tell(state.thread, "ask aside", asked, answered)
        return await self._begin_aside(state, asked, stands)

    async def _begin_aside(self, about: RunState, asked: t.AsideAsked, stands: str) -> Ack:
        new, agent, thread = self.record.new_run(), f"{about.agent}{ASIDE}", about.thread
        said = await spoken(
            self.record.store, thread, (await self.record.store.row(thread)).head, TAIL
        )
        given = {
            "status": stands,
            "brief": about.brief,
            "plan": about.plan,
            "transcript": said,
            "untrusted": about.untrusted,
        }

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            host = talk.host
            created = e.RunCreated(
                who=asked.who,
                agent=agent,
                thread=thread,
                brief=asked.text,
                input=Raw(msgspec.json.encode(given)),
                mode=about.mode,
                limits=host.limits if host and host.agent == about.agent else about.limits,
                aside_of=about.journal,
                thread_at=talk.head,
            )
            refuse_if_stopped(view.switches)
            moves.add(new, created)
            return {"status": stands, "did": "started", "target": new}

        return await self.record.tell(thread, "ask aside", asked, then, agent=about.agent)
