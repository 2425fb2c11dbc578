"""The app: routes of a ``Control`` behind a door. Run by ``midflight serve``, or mounted by you.

app = create_app(control, agents=[report], access=Access(Keyring("keys.json")))
mine.mount("/agents", app)
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

import anyio
from fastapi import FastAPI

from midflight.control import Control
from midflight.inputs import Clock, wall_clock
from midflight.run import Agent
from midflight.server import problems, routes_runs
from midflight.server.access import Access
from midflight.server.door import Door
from midflight.server.keyring import Keyring
from midflight.server.metrics import Metrics
from midflight.server.quotas import Meter, Quotas


def create_app(
    control: Control,
    *,
    agents: Iterable[Agent] = (),
    access: Access | None = None,
    quotas: Quotas | None = None,
    clock: Clock = wall_clock,
) -> FastAPI:
    """Give an ASGI app over ``control``. Without ``access`` nobody has a key yet: issue some.

    ``agents`` are those that can be started from outside, under their names.
    """
    app = FastAPI(
        title="Midflight",
        version=version("midflight"),
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.control = control
    app.state.agents = {agent.name: agent for agent in agents}
    app.state.access = access or Access(Keyring(clock=clock))
    app.state.metrics = Metrics()
    app.state.meter = Meter(quotas or Quotas(), clock)
    app.state.leaving = anyio.Event()
    problems.install(app, control)
    app.include_router(routes_runs.router)
    app.add_middleware(
        Door,
        access=app.state.access,
        meter=app.state.meter,
        metrics=app.state.metrics,
        clock=clock,
    )
    return app
