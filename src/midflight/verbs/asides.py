"""Questions beside the work: answered in the thread, and the run is not touched."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.errors import InvalidRequest
from midflight.kernel import events as e
from midflight.kernel import front
from midflight.kernel import thread as t
from midflight.kernel.decide import ASIDE, refuse_if_stopped
from midflight.kernel.record import Actor
from midflight.kernel.state import RunState
from midflight.kernel.status import status
from midflight.runtime.threads.recollection import spoken
from midflight.stores.protocol import RUN_PREFIX, THREAD_PREFIX, View
from midflight.verbs.auditing import audited
from midflight.verbs.covering import Ack
from midflight.verbs.driven import is_alone
from midflight.verbs.telling import Telling

TAIL: Final = 20  # lines of the conversation that a side question is answered from


class Asides(Telling):
    """The part of ``Control`` that answers questions about a run."""

    @audited("ask aside")
    async def ask_aside(
        self, to: str, text: str, *, who: Actor | None = None, key: str = ""
    ) -> Ack:
        """Ask something about a run without touching it, also while it is paused.

        Answered in the thread: by a run of the agent's ``aside``, or at once with how it stands.
        """
        about = to if not to.startswith(THREAD_PREFIX) else ""
        about = about or await self._front(await self._thread(to))
        if not about:
            raise InvalidRequest(f"no run was ever started in {to}. Nothing was changed.")
        state = await self.store.load(about)
        assert isinstance(state, RunState)
        asked = t.AsideAsked(who=self._asks(who), key=key, text=text, run=about)
        alone = await is_alone(self.store, state)
        stands = status(state, await self.store.now(), alone=alone)
        talk = await self._thread(state.thread)
        hosts = talk.host is not None and front.is_host(talk, state) and talk.host.asides
        if not ((state.asides or hosts) and asked.who.role.steers):

            def answered(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
                told = t.Said(run=about, text=stands, kind="aside", untrusted=state.untrusted)
                moves.add(talk.journal, told)
                return {"status": stands}

            return await self._tell(state.thread, "ask aside", asked, answered)
        return await self._begin_aside(state, asked, stands)

    async def _begin_aside(self, about: RunState, asked: t.AsideAsked, stands: str) -> Ack:
        new, agent, thread = RUN_PREFIX + self._ids(), f"{about.agent}{ASIDE}", about.thread
        said = await spoken(self.store, thread, (await self.store.row(thread)).head, TAIL)
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

        return await self._tell(thread, "ask aside", asked, then, agent=about.agent)
