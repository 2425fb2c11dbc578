"""Every protecting layer of the project, with the tests that see it missing."""

from __future__ import annotations

from layers import MUTANTS as JOURNAL
from layers_away import AWAY_MUTANTS
from layers_chat import CHANNEL_MUTANTS
from layers_edge import EDGE_MUTANTS
from layers_engines import ENGINE_MUTANTS
from layers_models import MODEL_MUTANTS
from layers_postgres import POSTGRES_MUTANTS
from layers_runtime import RUNTIME_MUTANTS
from layers_server import SERVER_MUTANTS
from layers_talk import TALK_MUTANTS
from layers_terminal import TERMINAL_MUTANTS
from layers_tools import TOOL_MUTANTS
from layers_voice import VOICE_MUTANTS
from marks import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *JOURNAL,
    *AWAY_MUTANTS,
    *CHANNEL_MUTANTS,
    *EDGE_MUTANTS,
    *ENGINE_MUTANTS,
    *RUNTIME_MUTANTS,
    *MODEL_MUTANTS,
    *POSTGRES_MUTANTS,
    *SERVER_MUTANTS,
    *TALK_MUTANTS,
    *TERMINAL_MUTANTS,
    *TOOL_MUTANTS,
    *VOICE_MUTANTS,
)
